package rackstream.shared;

import java.time.DateTimeException;
import java.time.LocalDate;

/**
 * Converts the contract's times, such as 2026-11-21T06:26:00.123Z, to epoch milliseconds and back.
 */
final class Timestamps {
    private static final int SECONDS_END = 19;
    private static final int FRACTION_DIGITS = 6;
    private static final int DAY_MS = 24 * 3600 * 1000;

    private Timestamps() {}

    /**
     * Return the time as text, with milliseconds.
     *
     * <p>Writes by position: a DateTimeFormatter would cost more per window than the rest of its
     * JSON.
     */
    static String format(long epochMs) {
        LocalDate day = LocalDate.ofEpochDay(Math.floorDiv(epochMs, DAY_MS));
        int ofDay = Math.floorMod(epochMs, DAY_MS);
        char[] text = "0000-00-00T00:00:00.000Z".toCharArray();
        write(text, 4, day.getYear());
        write(text, 7, day.getMonthValue());
        write(text, 10, day.getDayOfMonth());
        write(text, 13, ofDay / 3_600_000);
        write(text, 16, ofDay / 60_000 % 60);
        write(text, SECONDS_END, ofDay / 1000 % 60);
        write(text, 23, ofDay % 1000);
        return new String(text);
    }

    /** Write a number's digits over zeros, up to a position. */
    private static void write(char[] text, int end, int number) {
        for (int at = end - 1, rest = number; rest > 0; at--, rest /= 10) {
            text[at] = (char) ('0' + rest % 10);
        }
    }

    /**
     * Return a time's epoch milliseconds; throw DateTimeException for anything but a UTC time that
     * ends in Z.
     *
     * <p>Parses by position: a DateTimeFormatter would cost more per reading than parsing the JSON.
     */
    static long parse(String text) {
        int end = text.length() - 1;
        if (end < SECONDS_END || text.charAt(end) != 'Z') {
            throw new DateTimeException("not a UTC time that ends in Z");
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
            throw new DateTimeException("not a time of day");
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

    private static void expect(String text, int at, char expected) {
        if (text.charAt(at) != expected) {
            throw new DateTimeException("expected " + expected + " at position " + at);
        }
    }

    private static int number(String text, int from, int to) {
        int number = 0;
        for (int i = from; i < to; i++) {
            int digit = text.charAt(i) - '0';
            if (digit < 0 || digit > 9) {
                throw new DateTimeException("expected a digit at position " + i);
            }
            number = number * 10 + digit;
        }
        return number;
    }
}
