package rackstream;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;

class RuleTest {
    private static final double THRESHOLD_C = 80;

    @Test
    void threeHotReadingsInARowAreAWarning() {
        assertFalse(Rule.warning(taken(hot(1), hot(2))));
        assertTrue(Rule.warning(taken(hot(1), hot(2), hot(3))));
        assertFalse(Rule.warning(taken(hot(1), hot(2), hot(3), cold(4))));
    }

    @Test
    void exactlyTheThresholdIsHot() {
        assertTrue(reading(1, THRESHOLD_C).hot());
        assertFalse(reading(1, Math.nextDown(THRESHOLD_C)).hot());
    }

    @Test
    void aCopyChangesNothing() {
        Evidence[] last = taken(hot(1), hot(2));
        assertSame(last, Rule.take(last, hot(2)));
        Evidence[] full = taken(hot(1), hot(2), hot(3), hot(4));
        assertSame(full, Rule.take(full, hot(1)));
        assertSame(full, Rule.take(full, hot(2)));
    }

    @Test
    void aLateReadingGoesToItsPlace() {
        assertArrayEquals(taken(hot(2), cold(3), hot(4)), taken(hot(2), hot(4), cold(3)));
        assertArrayEquals(taken(hot(3), hot(4), hot(5)), taken(hot(3), hot(4), hot(5), cold(2)));
        assertFalse(Rule.warning(taken(hot(1), hot(2), hot(4), cold(3))));
    }

    @Test
    void stateIsTheSameOutOfItsBytes() {
        Evidence[] last = taken(hot(1), cold(2), new Evidence("é-3", 3, -1, -0.5, true));
        assertArrayEquals(last, StateBytes.decode(StateBytes.encode(last)));
        assertEquals(0, StateBytes.decode(null).length);
    }

    @Test
    void idsAreTheContracts() {
        // printf 'rack-overheating|rack-0007|WARNING|error|run-41' | sha256sum
        assertEquals("4b4c65b7c0875e96835ffe73df58ed5c", Alert.id("rack-0007", "WARNING", "error", "run-41"));
    }

    @Test
    void timesAreReadToTheMillisecond() {
        assertEquals("2026-11-21T06:26:00.123Z", Instants.text(Instants.epochMs("2026-11-21T06:26:00.123999Z")));
        assertEquals("2024-02-29T23:59:59.500Z", Instants.text(Instants.epochMs("2024-02-29T23:59:59.5Z")));
        assertEquals("1969-12-31T23:59:59.000Z", Instants.text(Instants.epochMs("1969-12-31T23:59:59Z")));
    }

    @Test
    void whatTheContractDoesNotAllowIsUnreadable() {
        String good =
                "{'event_id':'a','event_time':'2026-11-21T06:26:00.123Z','rack_id':'r','sequence':7,'site_id':'s',"
                        + "'device_type':'d','temperature_c':71,'signal_strength':0.5,'more':{'x':[1]}}";
        assertEquals(new Reading("r", "s", "a", 7, 1795242360123L, 71), read(good));
        assertNull(ReadingReader.read(null));
        assertNull(read(""));
        assertNull(read(good + "}"));
        assertNull(read(good.substring(0, good.length() - 1)));
        assertNull(read(good.replace("'sequence':7,", "")));
        assertNull(read(good.replace(":7,", ":7.5,")));
        assertNull(read(good.replace(":7,", ":'7',")));
        assertNull(read(good.replace(":71,", ":NaN,")));
        assertNull(read(good.replace(":71,", ":1e999,")));
        assertNull(read(good.replace("'a'", "5")));
        assertNull(read(good.replace("'a'", "null")));
        assertNull(read(good.replace("'a'", "'" + "a".repeat(257) + "'")));
        assertNull(read(good.replace("123Z", "123")));
        assertNull(read(good.replace("11-21", "11-31")));
    }

    private static Reading read(String json) {
        return ReadingReader.read(json.replace('\'', '"').getBytes(StandardCharsets.UTF_8));
    }

    private static Evidence[] taken(Evidence... readings) {
        Evidence[] last = StateBytes.decode(null);
        for (Evidence reading : readings) {
            last = Rule.take(last, reading);
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
        return Evidence.of(new Reading("r", "s", "id-" + sequence, sequence, 0, temperatureC), THRESHOLD_C);
    }
}
