package rackstream.shared;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

import java.nio.charset.StandardCharsets;

class RuleTest {
    private static final double THRESHOLD_C = 80;

    @Test
    void threeConsecutiveHotReadingsAreAWarning() {
        assertFalse(Rule.isWarning(lastAfter(hot(1), hot(2))));
        assertTrue(Rule.isWarning(lastAfter(hot(1), hot(2), hot(3))));
        assertFalse(Rule.isWarning(lastAfter(hot(1), hot(2), hot(3), cold(4))));
    }

    @Test
    void aReadingAtTheThresholdIsHot() {
        assertTrue(reading(1, THRESHOLD_C).hot());
        assertFalse(reading(1, Math.nextDown(THRESHOLD_C)).hot());
    }

    @Test
    void aCopyChangesNothing() {
        Evidence[] last = lastAfter(hot(1), hot(2));
        assertSame(last, Rule.update(last, hot(2)));
        Evidence[] full = lastAfter(hot(1), hot(2), hot(3), hot(4));
        assertSame(full, Rule.update(full, hot(1)));
        assertSame(full, Rule.update(full, hot(2)));
    }

    @Test
    void aLateReadingIsInsertedBySequence() {
        assertArrayEquals(lastAfter(hot(2), cold(3), hot(4)), lastAfter(hot(2), hot(4), cold(3)));
        assertArrayEquals(
                lastAfter(hot(3), hot(4), hot(5)), lastAfter(hot(3), hot(4), hot(5), cold(2)));
        assertFalse(Rule.isWarning(lastAfter(hot(1), hot(2), hot(4), cold(3))));
    }

    @Test
    void stateSurvivesEncodingAndDecoding() {
        Evidence[] last = lastAfter(hot(1), cold(2), new Evidence("é-3", 3, -1, -0.5, true));
        assertArrayEquals(last, StateCodec.decode(StateCodec.encode(last)));
        assertEquals(0, StateCodec.decode(null).length);
    }

    @Test
    void alertIdsMatchTheContract() {
        // printf 'rack-overheating|rack-0007|WARNING|error|run-41' | sha256sum
        assertEquals(
                "4b4c65b7c0875e96835ffe73df58ed5c",
                Alert.id("rack-0007", "WARNING", "error", "run-41"));
    }

    @Test
    void timesAreTruncatedToMilliseconds() {
        assertEquals(
                "2026-11-21T06:26:00.123Z",
                Timestamps.format(Timestamps.parse("2026-11-21T06:26:00.123999Z")));
        assertEquals(
                "2024-02-29T23:59:59.500Z",
                Timestamps.format(Timestamps.parse("2024-02-29T23:59:59.5Z")));
        assertEquals(
                "1969-12-31T23:59:59.000Z",
                Timestamps.format(Timestamps.parse("1969-12-31T23:59:59Z")));
    }

    @Test
    void recordsThatViolateTheContractAreRejected() {
        String good =
                "{'event_id':'a','event_time':'2026-11-21T06:26:00.123Z','rack_id':'r',"
                        + "'sequence':7,'site_id':'s',"
                        + "'device_type':'d','temperature_c':71,"
                        + "'signal_strength':0.5,'more':{'x':[1]}}";
        assertEquals(new Reading("r", "s", "a", 7, 1795242360123L, 71), parse(good));
        assertNull(Reading.parse(null));
        assertNull(parse(""));
        assertNull(parse(good + "}"));
        assertNull(parse(good.substring(0, good.length() - 1)));
        assertNull(parse(good.replace("'sequence':7,", "")));
        assertNull(parse(good.replace(":7,", ":7.5,")));
        assertNull(parse(good.replace(":7,", ":'7',")));
        assertNull(parse(good.replace(":71,", ":NaN,")));
        assertNull(parse(good.replace(":71,", ":1e999,")));
        assertNull(parse(good.replace("'a'", "5")));
        assertNull(parse(good.replace("'a'", "null")));
        assertNull(parse(good.replace("'a'", "'" + "a".repeat(257) + "'")));
        assertNull(parse(good.replace("123Z", "123")));
        assertNull(parse(good.replace("11-21", "11-31")));
    }

    private static Reading parse(String json) {
        return Reading.parse(json.replace('\'', '"').getBytes(StandardCharsets.UTF_8));
    }

    private static Evidence[] lastAfter(Evidence... readings) {
        Evidence[] last = StateCodec.decode(null);
        for (Evidence reading : readings) {
            last = Rule.update(last, reading);
        }
        return last;
    }

    private static Evidence hot(long sequence) {
        return reading(sequence, THRESHOLD_C + 1);
    }

    private static Evidence cold(long sequence) {
        return reading(sequence, THRESHOLD_C - 1);
    }

    private static Evidence reading(long sequence, double temperatureC) {
        return Evidence.of(
                new Reading("r", "s", "id-" + sequence, sequence, 0, temperatureC), THRESHOLD_C);
    }
}
