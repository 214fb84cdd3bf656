package rackstream;

import java.util.Comparator;

/** A reading as the rule keeps it. `hot`: at or above the threshold that its rack had when it was taken. */
public record Evidence(String eventId, long sequence, long eventMs, double temperatureC, boolean hot)
        implements Comparable<Evidence> {
    private static final Comparator<Evidence> ORDER =
            Comparator.comparingLong(Evidence::sequence).thenComparing(Evidence::eventId);

    static Evidence of(Reading reading, double thresholdC) {
        return new Evidence(
                reading.eventId(),
                reading.sequence(),
                reading.eventMs(),
                reading.temperatureC(),
                reading.temperatureC() >= thresholdC);
    }

    /** By the gateway's number; the id decides only where a gateway has given a number twice. */
    @Override
    public int compareTo(Evidence other) {
        return ORDER.compare(this, other);
    }
}
