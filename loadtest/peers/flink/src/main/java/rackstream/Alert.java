package rackstream;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.Locale;

/** A change of a rack's state, as the contract wants it written. Times are epoch milliseconds. */
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

    /** Return the alert that a reading decided, whose rack now has these last readings. */
    static Alert of(Reading decider, Evidence[] last, Inventory.Rack rack, long nowMs) {
        boolean warning = Rule.warning(last);
        String state = warning ? "WARNING" : "NORMAL";
        String severity = warning ? rack.severity() : "info";
        return new Alert(
                id(decider.rackId(), state, severity, decider.eventId()),
                decider.rackId(),
                decider.siteId(),
                state,
                severity,
                decider.eventMs(),
                nowMs,
                summary(decider.rackId(), warning, rack.thresholdC(), last[last.length - 1].temperatureC()),
                last);
    }

    /** A function of what was decided, never of when: what is written twice has one id, and readers keep one. */
    static String id(String subject, String state, String severity, String decider) {
        String identity = String.join("|", Rule.NAME, subject, state, severity, decider);
        try {
            byte[] hash = MessageDigest.getInstance("SHA-256").digest(identity.getBytes(StandardCharsets.UTF_8));
            return HexFormat.of().formatHex(hash, 0, ID_BYTES);
        } catch (NoSuchAlgorithmException impossible) {
            throw new IllegalStateException("every Java has SHA-256", impossible);
        }
    }

    private static String summary(String rackId, boolean warning, double thresholdC, double latestC) {
        String sentence =
                warning
                        ? "Rack %s is overheating: its last %d readings are all at or above %.1f °C,"
                                + " the latest %.1f °C."
                        : "Rack %s is back to normal: its last %d readings are no longer all at or above %.1f °C,"
                                + " the latest %.1f °C.";
        return String.format(Locale.ROOT, sentence, rackId, Rule.IN_A_ROW, thresholdC, latestC);
    }
}
