package rackstream.rule;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;

/** Encodes an alert as the JSON object of the topic alerts. */
public final class AlertEncoder {
    private static final int INITIAL_BYTES = 1024;
    private static final JsonFactory JSON = new JsonFactory();

    private AlertEncoder() {}

    /** Return the JSON object as UTF-8. */
    public static byte[] encode(Alert alert) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream(INITIAL_BYTES);
        try (JsonGenerator json = JSON.createGenerator(bytes)) {
            json.writeStartObject();
            json.writeStringField("alert_id", alert.alertId());
            json.writeStringField("rule", Rule.NAME);
            json.writeStringField("subject", alert.subject());
            json.writeStringField("site_id", alert.siteId());
            json.writeStringField("state", alert.state());
            json.writeStringField("severity", alert.severity());
            json.writeStringField("event_time", Timestamps.format(alert.eventMs()));
            json.writeStringField("detected_time", Timestamps.format(alert.detectedMs()));
            json.writeStringField("summary", alert.summary());
            json.writeArrayFieldStart("evidence");
            for (Evidence reading : alert.evidence()) {
                json.writeStartObject();
                json.writeStringField("event_id", reading.eventId());
                json.writeNumberField("sequence", reading.sequence());
                json.writeStringField("event_time", Timestamps.format(reading.eventMs()));
                json.writeNumberField("temperature_c", reading.temperatureC());
                json.writeEndObject();
            }
            json.writeEndArray();
            json.writeEndObject();
        } catch (IOException impossible) {
            throw new UncheckedIOException("a buffer in memory failed", impossible);
        }
        return bytes.toByteArray();
    }
}
