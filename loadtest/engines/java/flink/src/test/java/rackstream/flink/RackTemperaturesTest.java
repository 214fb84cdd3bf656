package rackstream.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.operators.KeyedProcessOperator;
import org.apache.flink.streaming.util.KeyedOneInputStreamOperatorTestHarness;
import org.apache.flink.streaming.util.OneInputStreamOperatorTestHarness;
import org.junit.jupiter.api.Test;

import rackstream.shared.Message;
import rackstream.shared.Reading;
import rackstream.shared.Temperatures;

import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.List;

class RackTemperaturesTest {
    @Test
    void aReadingCountsInItsOpenWindowsUntilTheyAreClosed() throws Exception {
        try (var windows =
                new KeyedOneInputStreamOperatorTestHarness<>(
                        new KeyedProcessOperator<>(new RackTemperatures()),
                        ScopedTemperatures::scope,
                        Types.STRING)) {
            windows.open();
            windows.processElement(measured("r", "06:20", 10), 0);
            windows.processElement(measured("r", "06:25", 20), 0);
            assertEquals(
                    List.of("r 06:20 1", "r 06:15 1", "r 06:25 1", "r 06:20 2"), rows(windows));
            windows.getOutput().clear();
            windows.processWatermark(ms("06:30") - 1);
            windows.processElement(measured("r", "06:25", 20), 0);
            windows.processElement(measured("r", "06:20", 20), 0);
            assertEquals(List.of("r 06:25 2"), rows(windows));
            windows.processWatermark(ms("06:35") - 1);
            assertEquals(0, windows.numKeyedStateEntries());
        }
    }

    @Test
    void withoutAnIntervalEachReadingIsEmittedForItsRackAndTheFleet() throws Exception {
        try (var merged = new OneInputStreamOperatorTestHarness<>(new MergedReadings(0))) {
            merged.open();
            merged.processElement(reading("r", "06:21", 10), 0);
            assertEquals(
                    List.of(measured("fleet", "06:20", 10), measured("r", "06:20", 10)),
                    merged.extractOutputValues());
        }
    }

    @Test
    void readingsOfAPaneAreMergedUntilTheIntervalAWatermarkOrACheckpoint() throws Exception {
        try (var merged = new OneInputStreamOperatorTestHarness<>(new MergedReadings(1000))) {
            merged.open();
            merged.processElement(reading("r", "06:21", 10), 0);
            merged.processElement(reading("r", "06:24", 20), 0);
            assertEquals(List.of(), merged.extractOutputValues());
            merged.setProcessingTime(1000);
            assertEquals(
                    List.of(2L, 2L),
                    merged.extractOutputValues().stream().map(ScopedTemperatures::count).toList());
            merged.processElement(reading("r", "06:21", 10), 0);
            merged.processWatermark(ms("06:00"));
            assertEquals(4, merged.extractOutputValues().size());
            merged.processElement(reading("r", "06:21", 10), 0);
            merged.prepareSnapshotPreBarrier(1);
            assertEquals(6, merged.extractOutputValues().size());
            merged.processElement(reading("r", "06:21", 10), 0);
            merged.setProcessingTime(2000);
            assertEquals(8, merged.extractOutputValues().size());
        }
    }

    private static Reading reading(String rack, String time, double temperatureC) {
        return new Reading(rack, "s", "e", 1, ms(time), temperatureC);
    }

    private static ScopedTemperatures measured(String scope, String pane, double temperatureC) {
        return ScopedTemperatures.of(scope, ms(pane), Temperatures.of(temperatureC));
    }

    private static long ms(String time) {
        return Instant.parse("2026-11-21T" + time + ":00Z").toEpochMilli();
    }

    /** Return scope, time of day at the start, and count of each window written so far. */
    private static List<String> rows(
            KeyedOneInputStreamOperatorTestHarness<?, ?, Message> windows) {
        return windows.extractOutputValues().stream()
                .map(
                        row ->
                                new String(row.key(), StandardCharsets.UTF_8)
                                                .replaceFirst("\\|.*T(..:..):.*\\|.*", " $1")
                                        + " "
                                        + new String(row.value(), StandardCharsets.UTF_8)
                                                .replaceFirst(".*\"reading_count\":(\\d+).*", "$1"))
                .toList();
    }
}
