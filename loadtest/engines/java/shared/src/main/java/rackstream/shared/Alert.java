package rackstream.shared;

import com.fasterxml.jackson.core.JsonGenerator;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.Locale;

/** A change of a rack's state, with the fields of the contract. Times are epoch milliseconds. */
public record Alert(
        String alertId,
        String subject,
        String siteId,
        String state,
        String severity,
        long eventMs,
        long detectedMs,
        String summary,
        Evidence[] evidence) {
    private static final int ID_BYTES = 16;

    /**
     * Return the alert that a reading triggered; {@code last} are its rack's last readings after
     * it.
     */
    public static Alert of(Reading trigger, Evidence[] last, Inventory.Rack rack, long nowMs) {
        boolean warning = Rule.isWarning(last);
        String state = warning ? "WARNING" : "NORMAL";
        String severity = warning ? rack.severity() : "info";
        return new Alert(
                id(trigger.rackId(), state, severity, trigger.eventId()),
                trigger.rackId(),
                trigger.siteId(),
                state,
                severity,
                trigger.eventMs(),
                nowMs,
                summary(
                        trigger.rackId(),
                        warning,
                        rack.thresholdC(),
                        last[last.length - 1].temperatureC()),
                last);
    }

    /** Return the record of the topic alerts. */
    public Message message() {
        return new Message(
                subject.getBytes(StandardCharsets.UTF_8), JsonObject.encode(this::write));
    }

    private void write(JsonGenerator json) throws IOException {
        json.writeStringField("alert_id", alertId);
        json.writeStringField("rule", Rule.NAME);
        json.writeStringField("subject", subject);
        json.writeStringField("site_id", siteId);
        json.writeStringField("state", state);
        json.writeStringField("severity", severity);
        json.writeStringField("event_time", Timestamps.format(eventMs));
        json.writeStringField("detected_time", Timestamps.format(detectedMs));
        json.writeStringField("summary", summary);
        json.writeArrayFieldStart("evidence");
        for (Evidence reading : evidence) {
            json.writeStartObject();
            json.writeStringField("event_id", reading.eventId());
            json.writeNumberField("sequence", reading.sequence());
            json.writeStringField("event_time", Timestamps.format(reading.eventMs()));
            json.writeNumberField("temperature_c", reading.temperatureC());
            json.writeEndObject();
        }
        json.writeEndArray();
    }

    /** Return the alert's id: independent of time, so repeated alerts have the same id. */
    static String id(String subject, String state, String severity, String trigger) {
        String identity = String.join("|", Rule.NAME, subject, state, severity, trigger);
        try {
            byte[] hash =
                    MessageDigest.getInstance("SHA-256")
                            .digest(identity.getBytes(StandardCharsets.UTF_8));
            return HexFormat.of().formatHex(hash, 0, ID_BYTES);
        } catch (NoSuchAlgorithmException impossible) {
            throw new IllegalStateException("every Java runtime has SHA-256", impossible);
        }
    }

    private static String summary(
            String rackId, boolean warning, double thresholdC, double latestC) {
        String sentence =
                warning
                        ? "Rack %s is overheating: its last %d readings are all at or above %.1f"
                              + " °C, the latest %.1f °C."
                        : "Rack %s is back to normal: its last %d readings are no longer all at or"
                              + " above %.1f °C, the latest %.1f °C.";
        return String.format(Locale.ROOT, sentence, rackId, Rule.CONSECUTIVE, thresholdC, latestC);
    }
}
