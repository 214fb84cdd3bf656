package rackstream.shared;

/** An input event of the contract. */
public interface Event {
    /** How far an event may lie ahead of its append time; jobs by event time leave out others. */
    long FUTURE_TOLERANCE_MS = 5 * 60_000;

    /** When it happened, in epoch milliseconds. */
    long eventMs();

    /** Return whether it lies too far ahead of the time at which the topic took it. */
    default boolean isFuture(long appendMs) {
        return eventMs() > appendMs + FUTURE_TOLERANCE_MS;
    }
}
