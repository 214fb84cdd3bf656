package rackstream.shared;

import java.nio.charset.StandardCharsets;

/** One window of one scope, with the fields of the contract. */
public record RackTemperature(String scope, long startMs, Temperatures temperatures) {
    public static final String FLEET = "fleet";
    public static final long WINDOW_MS = 10 * 60_000;
    public static final long SLIDE_MS = 5 * 60_000;

    /** How late a reading may be and still count. */
    public static final long WATERMARK_MS = 10 * 60_000;

    /** Return the record of the topic rack-temperature. */
    public Message message() {
        String start = Timestamps.format(startMs);
        String end = Timestamps.format(startMs + WINDOW_MS);
        return new Message(
                String.join("|", scope, start, end).getBytes(StandardCharsets.UTF_8),
                JsonObject.encode(
                        json -> {
                            json.writeStringField("scope", scope);
                            json.writeStringField("window_start", start);
                            json.writeStringField("window_end", end);
                            json.writeNumberField("reading_count", temperatures.count());
                            json.writeNumberField(
                                    "temperature_c_avg",
                                    temperatures.sum() / temperatures.count());
                            json.writeNumberField("temperature_c_min", temperatures.min());
                            json.writeNumberField("temperature_c_max", temperatures.max());
                        }));
    }
}
