package rackstream.shared;

import java.util.Comparator;

/**
 * A reading as the rule's state keeps it; {@code hot}: at or above its rack's threshold when it was
 * read.
 */
public record Evidence(
        String eventId, long sequence, long eventMs, double temperatureC, boolean hot)
        implements Comparable<Evidence> {
    private static final Comparator<Evidence> ORDER =
            Comparator.comparingLong(Evidence::sequence).thenComparing(Evidence::eventId);

    /** Return the evidence of a reading, whose rack has this threshold. */
    public static Evidence of(Reading reading, double thresholdC) {
        return new Evidence(
                reading.eventId(),
                reading.sequence(),
                reading.eventMs(),
                reading.temperatureC(),
                reading.temperatureC() >= thresholdC);
    }

    /** Order by the gateway's sequence; the id breaks ties where a gateway used a number twice. */
    @Override
    public int compareTo(Evidence other) {
        return ORDER.compare(this, other);
    }
}
