package rackstream.shared;

/**
 * The overheating rule: a rack is in WARNING when its last three distinct readings, by sequence,
 * are all hot.
 *
 * <p>The state is those three readings. An older reading, whether late or a copy, cannot change the
 * result.
 */
public final class Rule {
    public static final String NAME = "rack-overheating";
    static final int CONSECUTIVE = 3;

    private Rule() {}

    /** Return whether a rack with these last readings is in WARNING. */
    public static boolean isWarning(Evidence[] last) {
        if (last.length < CONSECUTIVE) {
            return false;
        }
        for (Evidence reading : last) {
            if (!reading.hot()) {
                return false;
            }
        }
        return true;
    }

    /**
     * Return the last readings after the topic's next one; the same array if it changes nothing.
     */
    public static Evidence[] update(Evidence[] last, Evidence reading) {
        boolean full = last.length == CONSECUTIVE;
        if (full && reading.compareTo(last[0]) <= 0) {
            return last;
        }
        for (Evidence other : last) {
            if (other.eventId().equals(reading.eventId())) {
                return last;
            }
        }
        Evidence[] next = new Evidence[full ? CONSECUTIVE : last.length + 1];
        int from = full ? 1 : 0;
        int at = 0;
        while (from < last.length && last[from].compareTo(reading) < 0) {
            next[at++] = last[from++];
        }
        next[at++] = reading;
        while (from < last.length) {
            next[at++] = last[from++];
        }
        return next;
    }
}
