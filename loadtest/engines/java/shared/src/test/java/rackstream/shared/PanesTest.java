package rackstream.shared;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

import java.nio.charset.StandardCharsets;

class PanesTest {
    private static final long T0_MS = 1_795_242_000_000L; // 2026-11-21T06:20:00Z
    private static final long MINUTE_MS = 60_000;

    @Test
    void aPaneStartsEveryFiveMinutes() {
        assertEquals(T0_MS, Panes.startMs(T0_MS));
        assertEquals(T0_MS, Panes.startMs(T0_MS + 5 * MINUTE_MS - 1));
        assertEquals(-5 * MINUTE_MS, Panes.startMs(-1));
    }

    @Test
    void aWindowIsClosedOnceTheWatermarkHasReachedItsLastMillisecond() {
        assertFalse(Panes.isClosed(T0_MS, T0_MS + 10 * MINUTE_MS - 2));
        assertTrue(Panes.isClosed(T0_MS, T0_MS + 10 * MINUTE_MS - 1));
    }

    @Test
    void aWindowHasTheTemperaturesOfItsTwoPanes() {
        Panes panes = panes();
        assertEquals(new Temperatures(3, 60, 10, 30), panes.inWindow(T0_MS));
        assertEquals(new Temperatures(2, 30, 10, 20), panes.inWindow(T0_MS - 5 * MINUTE_MS));
        assertEquals(new Temperatures(1, 30, 30, 30), panes.inWindow(T0_MS + 5 * MINUTE_MS));
    }

    @Test
    void aPaneIsRemovedWhenItsLastWindowIsClosed() {
        Panes panes = panes();
        panes.removeClosed(T0_MS + 10 * MINUTE_MS - 2);
        assertEquals(3, panes.inWindow(T0_MS).count());
        panes.removeClosed(T0_MS + 10 * MINUTE_MS - 1);
        assertEquals(1, panes.inWindow(T0_MS).count());
        panes.removeClosed(T0_MS + 15 * MINUTE_MS - 1);
        assertTrue(panes.isEmpty());
    }

    @Test
    void panesSurviveEncodingAndDecoding() {
        Panes panes = Panes.decode(panes().encode());
        assertEquals(new Temperatures(3, 60, 10, 30), panes.inWindow(T0_MS));
        assertTrue(Panes.decode(null).isEmpty());
    }

    @Test
    void aWindowIsWrittenAsTheContractSays() {
        Message message = new RackTemperature("r", T0_MS, panes().inWindow(T0_MS)).message();
        assertEquals(
                "r|2026-11-21T06:20:00.000Z|2026-11-21T06:30:00.000Z",
                new String(message.key(), StandardCharsets.UTF_8));
        assertEquals(
                "{'scope':'r','window_start':'2026-11-21T06:20:00.000Z',"
                        + "'window_end':'2026-11-21T06:30:00.000Z','reading_count':3,"
                        + "'temperature_c_avg':20.0,'temperature_c_min':10.0,"
                        + "'temperature_c_max':30.0}",
                new String(message.value(), StandardCharsets.UTF_8).replace('"', '\''));
    }

    private static Panes panes() {
        Panes panes = Panes.decode(null);
        assertTrue(panes.add(T0_MS, Temperatures.of(10)));
        assertFalse(panes.add(T0_MS, Temperatures.of(20)));
        assertTrue(panes.add(T0_MS + 5 * MINUTE_MS, Temperatures.of(30)));
        return panes;
    }
}
