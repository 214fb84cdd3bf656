package rackstream.shared;

import com.fasterxml.jackson.core.JsonParser;

import java.io.IOException;

/** The fields of a rack-readings record that the jobs need. */
public record Reading(
        String rackId,
        String siteId,
        String eventId,
        long sequence,
        long eventMs,
        double temperatureC)
        implements Event {

    /** Return the reading, or null when the value violates the contract. */
    public static Reading parse(byte[] value) {
        return StrictJson.parse(value, Reading::read);
    }

    private static Reading read(JsonParser json) throws IOException {
        String rackId = null;
        String siteId = null;
        String eventId = null;
        String deviceType = null;
        Long sequence = null;
        Long eventMs = null;
        Double temperatureC = null;
        Double signalStrength = null;
        String name;
        while ((name = StrictJson.nextField(json)) != null) {
            switch (name) {
                case "rack_id" -> rackId = StrictJson.id(json);
                case "site_id" -> siteId = StrictJson.id(json);
                case "event_id" -> eventId = StrictJson.id(json);
                case "device_type" -> deviceType = StrictJson.id(json);
                case "sequence" -> sequence = StrictJson.integer(json);
                case "event_time" -> eventMs = StrictJson.instant(json);
                case "temperature_c" -> temperatureC = StrictJson.number(json);
                case "signal_strength" -> signalStrength = StrictJson.number(json);
                case "scheduled_time" -> StrictJson.optionalInstant(json);
                default -> json.skipChildren();
            }
        }
        StrictJson.check(
                rackId != null && siteId != null && eventId != null && deviceType != null, json);
        StrictJson.check(
                sequence != null
                        && eventMs != null
                        && temperatureC != null
                        && signalStrength != null,
                json);
        return new Reading(rackId, siteId, eventId, sequence, eventMs, temperatureC);
    }
}
