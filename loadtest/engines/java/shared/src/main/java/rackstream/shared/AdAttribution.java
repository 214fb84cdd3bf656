package rackstream.shared;

import com.fasterxml.jackson.core.JsonGenerator;

import java.io.IOException;
import java.nio.charset.StandardCharsets;

/** An impression and its click, null when none came, with the fields of the contract. */
public record AdAttribution(Impression impression, Click click) {
    /** How long after its impression a click still joins, both ends included. */
    public static final long CLICK_WITHIN_MS = 3_600_000;

    /** How late an impression may be and still count. */
    public static final long IMPRESSIONS_WATERMARK_MS = 2 * 3_600_000;

    /** How late a click may be and still count. */
    public static final long CLICKS_WATERMARK_MS = 3 * 3_600_000;

    private static final double SECOND_MS = 1000;

    /** Return whether a click with the impression's id belongs to it. */
    public static boolean joins(Impression impression, Click click) {
        long sinceMs = click.eventMs() - impression.eventMs();
        return 0 <= sinceMs && sinceMs <= CLICK_WITHIN_MS;
    }

    /** Return the record of the topic ad-attribution. */
    public Message message() {
        return new Message(
                impression.impressionId().getBytes(StandardCharsets.UTF_8),
                JsonObject.encode(this::write));
    }

    private void write(JsonGenerator json) throws IOException {
        json.writeStringField("impression_id", impression.impressionId());
        json.writeStringField("ad_id", impression.adId());
        json.writeStringField("user_id", impression.userId());
        json.writeStringField("impression_time", Timestamps.format(impression.eventMs()));
        if (click == null) {
            json.writeNullField("click_id");
            json.writeNullField("click_time");
            json.writeNullField("seconds_to_click");
        } else {
            json.writeStringField("click_id", click.clickId());
            json.writeStringField("click_time", Timestamps.format(click.eventMs()));
            json.writeNumberField(
                    "seconds_to_click", (click.eventMs() - impression.eventMs()) / SECOND_MS);
        }
    }
}
