package rackstream;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;

/** Writes an alert as the JSON object that goes into its topic. */
final class AlertWriter {
    private static final int USUAL_BYTES = 1024;
    private static final JsonFactory JSON = new JsonFactory();

    private AlertWriter() {}

    static byte[] write(Alert alert) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream(USUAL_BYTES);
        try (JsonGenerator json = JSON.createGenerator(bytes)) {
            json.writeStartObject();
            json.writeStringField("alert_id", alert.alertId());
            json.writeStringField("rule", Rule.NAME);
            json.writeStringField("subject", alert.subject());
            json.writeStringField("site_id", alert.siteId());
            json.writeStringField("state", alert.state());
            json.writeStringField("severity", alert.severity());
            json.writeStringField("event_time", Instants.text(alert.eventMs()));
            json.writeStringField("detected_time", Instants.text(alert.detectedMs()));
            json.writeStringField("summary", alert.summary());
            json.writeArrayFieldStart("evidence");
            for (Evidence reading : alert.evidence()) {
                json.writeStartObject();
                json.writeStringField("event_id", reading.eventId());
                json.writeNumberField("sequence", reading.sequence());
                json.writeStringField("event_time", Instants.text(reading.eventMs()));
                json.writeNumberField("temperature_c", reading.temperatureC());
                json.writeEndObject();
            }
            json.writeEndArray();
            json.writeEndObject();
        } catch (IOException impossible) {
            throw new UncheckedIOException("memory cannot be written", impossible);
        }
        return bytes.toByteArray();
    }
}
