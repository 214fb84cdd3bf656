package rackstream.shared;

import com.fasterxml.jackson.core.JsonParser;

import java.io.IOException;

/** The fields of an ad-impressions record that the jobs need. */
public record Impression(String impressionId, String adId, String userId, long eventMs)
        implements Event {

    /** Return the impression, or null when the value violates the contract. */
    public static Impression parse(byte[] value) {
        return StrictJson.parse(value, Impression::read);
    }

    private static Impression read(JsonParser json) throws IOException {
        String eventId = null;
        String impressionId = null;
        String adId = null;
        String userId = null;
        String page = null;
        Long eventMs = null;
        String name;
        while ((name = StrictJson.nextField(json)) != null) {
            switch (name) {
                case "event_id" -> eventId = StrictJson.id(json);
                case "impression_id" -> impressionId = StrictJson.id(json);
                case "ad_id" -> adId = StrictJson.id(json);
                case "user_id" -> userId = StrictJson.id(json);
                case "page" -> page = StrictJson.text(json);
                case "event_time" -> eventMs = StrictJson.instant(json);
                case "scheduled_time" -> StrictJson.optionalInstant(json);
                default -> json.skipChildren();
            }
        }
        StrictJson.check(eventId != null && impressionId != null && adId != null, json);
        StrictJson.check(userId != null && page != null && eventMs != null, json);
        return new Impression(impressionId, adId, userId, eventMs);
    }
}
