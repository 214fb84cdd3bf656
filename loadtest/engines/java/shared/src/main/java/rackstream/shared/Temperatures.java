package rackstream.shared;

import java.nio.ByteBuffer;

/** Count, sum and extremes of some temperatures. */
public record Temperatures(long count, double sum, double min, double max) {
    public static final Temperatures NONE =
            new Temperatures(0, 0, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY);

    /** How many bytes `put` writes. */
    public static final int BYTES = Long.BYTES + 3 * Double.BYTES;

    /** Return what one temperature is. */
    public static Temperatures of(double temperatureC) {
        return new Temperatures(1, temperatureC, temperatureC, temperatureC);
    }

    /** Return these temperatures and others. */
    public Temperatures plus(Temperatures other) {
        return new Temperatures(
                count + other.count,
                sum + other.sum,
                Math.min(min, other.min),
                Math.max(max, other.max));
    }

    /** Write them at the buffer's position. */
    public void put(ByteBuffer bytes) {
        bytes.putLong(count).putDouble(sum).putDouble(min).putDouble(max);
    }

    /** Read what `put` has written. */
    public static Temperatures get(ByteBuffer bytes) {
        return new Temperatures(
                bytes.getLong(), bytes.getDouble(), bytes.getDouble(), bytes.getDouble());
    }
}
