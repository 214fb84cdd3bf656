package rackstream;

import java.time.DateTimeException;
import java.time.Instant;
import java.time.LocalDate;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;

/** The contract's times, such as 2026-11-21T06:26:00.123Z, as epoch milliseconds and back. */
final class Instants {
    private static final int SECONDS_END = 19;
    private static final int FRACTION_DIGITS = 6;
    private static final DateTimeFormatter TEXT =
            DateTimeFormatter.ofPattern("uuuu-MM-dd'T'HH:mm:ss.SSS'Z'").withZone(ZoneOffset.UTC);

    private Instants() {}

    static String text(long epochMs) {
        return TEXT.format(Instant.ofEpochMilli(epochMs));
    }

    /**
     * Parse by position: every reading has one or two times, and a DateTimeFormatter would cost more than all of the
     * JSON. Throws DateTimeException for what is no time in UTC with a Z.
     */
    static long epochMs(String text) {
        int end = text.length() - 1;
        if (end < SECONDS_END || text.charAt(end) != 'Z') {
            throw new DateTimeException("not in UTC, ending in Z");
        }
        expect(text, 4, '-');
        expect(text, 7, '-');
        expect(text, 10, 'T');
        expect(text, 13, ':');
        expect(text, 16, ':');
        int year = number(text, 0, 4);
        int hour = number(text, 11, 13);
        int minute = number(text, 14, 16);
        int second = number(text, 17, SECONDS_END);
        if (year == 0 || hour > 23 || minute > 59 || second > 59) {
            throw new DateTimeException("not a moment of a day");
        }
        long day = LocalDate.of(year, number(text, 5, 7), number(text, 8, 10)).toEpochDay();
        return (((day * 24 + hour) * 60 + minute) * 60 + second) * 1000 + milliseconds(text, end);
    }

    private static int milliseconds(String text, int end) {
        if (end == SECONDS_END) {
            return 0;
        }
        expect(text, SECONDS_END, '.');
        int digits = end - SECONDS_END - 1;
        if (digits < 1 || digits > FRACTION_DIGITS) {
            throw new DateTimeException("not a fraction of a second");
        }
        int fraction = number(text, SECONDS_END + 1, end);
        for (; digits < 3; digits++) {
            fraction *= 10;
        }
        for (; digits > 3; digits--) {
            fraction /= 10;
        }
        return fraction;
    }

    private static void expect(String text, int at, char sign) {
        if (text.charAt(at) != sign) {
            throw new DateTimeException("no " + sign + " in place " + at);
        }
    }

    private static int number(String text, int from, int to) {
        int number = 0;
        for (int i = from; i < to; i++) {
            int digit = text.charAt(i) - '0';
            if (digit < 0 || digit > 9) {
                throw new DateTimeException("no digit in place " + i);
            }
            number = number * 10 + digit;
        }
        return number;
    }
}
