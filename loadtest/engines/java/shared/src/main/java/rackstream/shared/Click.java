package rackstream.shared;

import com.fasterxml.jackson.core.JsonParser;

import java.io.IOException;

/** The fields of an ad-clicks record that the jobs need. */
public record Click(String eventId, String clickId, String impressionId, long eventMs)
        implements Event {

    /** Return the click, or null when the value violates the contract. */
    public static Click parse(byte[] value) {
        return StrictJson.parse(value, Click::read);
    }

    private static Click read(JsonParser json) throws IOException {
        String eventId = null;
        String clickId = null;
        String impressionId = null;
        String adId = null;
        String userId = null;
        Long eventMs = null;
        String name;
        while ((name = StrictJson.nextField(json)) != null) {
            switch (name) {
                case "event_id" -> eventId = StrictJson.id(json);
                case "click_id" -> clickId = StrictJson.id(json);
                case "impression_id" -> impressionId = StrictJson.id(json);
                case "ad_id" -> adId = StrictJson.id(json);
                case "user_id" -> userId = StrictJson.id(json);
                case "event_time" -> eventMs = StrictJson.instant(json);
                case "scheduled_time" -> StrictJson.optionalInstant(json);
                default -> json.skipChildren();
            }
        }
        StrictJson.check(eventId != null && clickId != null && impressionId != null, json);
        StrictJson.check(adId != null && userId != null && eventMs != null, json);
        return new Click(eventId, clickId, impressionId, eventMs);
    }
}
