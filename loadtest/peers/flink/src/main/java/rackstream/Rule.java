package rackstream;

/**
 * When is a rack overheating? When the last three of its distinct readings, by sequence, are all hot.
 *
 * <p>Those three are all that later readings can be compared with, so they are all the state there is: what is older
 * than the oldest of them can change nothing, be it late, or a copy of one that was dropped.
 */
final class Rule {
    static final String NAME = "rack-overheating";
    static final int IN_A_ROW = 3;

    private Rule() {}

    static boolean warning(Evidence[] last) {
        if (last.length < IN_A_ROW) {
            return false;
        }
        for (Evidence reading : last) {
            if (!reading.hot()) {
                return false;
            }
        }
        return true;
    }

    /** Return the last readings after the next one of the topic: the very same array if it changes nothing. */
    static Evidence[] take(Evidence[] last, Evidence reading) {
        boolean full = last.length == IN_A_ROW;
        if (full && reading.compareTo(last[0]) <= 0) {
            return last;
        }
        for (Evidence other : last) {
            if (other.eventId().equals(reading.eventId())) {
                return last;
            }
        }
        Evidence[] next = new Evidence[full ? IN_A_ROW : last.length + 1];
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
