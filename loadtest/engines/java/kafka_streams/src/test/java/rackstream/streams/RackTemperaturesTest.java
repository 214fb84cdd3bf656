package rackstream.streams;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

import rackstream.shared.Arguments;

import java.nio.file.Path;
import java.time.Instant;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.atomic.LongAdder;

class RackTemperaturesTest {
    private static final Instant APPENDED = Instant.parse("2026-11-21T07:00:00Z");

    private final LongAdder malformed = new LongAdder();
    private TopologyTestDriver driver;
    private TestInputTopic<String, String> readings;
    private TestOutputTopic<String, String> windows;

    @BeforeEach
    void start(@TempDir Path state) {
        Arguments arguments = new Arguments("rack_temperature", "it", "", null, state, 1, 0);
        Properties settings = new Properties();
        settings.put(StreamsConfig.STATE_DIR_CONFIG, state.toString());
        driver =
                new TopologyTestDriver(
                        RackTemperatures.topology(arguments, malformed), settings, APPENDED);
        var text = Serdes.String();
        readings =
                driver.createInputTopic("rack-readings", text.serializer(), text.serializer());
        windows =
                driver.createOutputTopic(
                        "rack-temperature", text.deserializer(), text.deserializer());
    }

    @AfterEach
    void stop() {
        driver.close();
    }

    @Test
    void aReadingChangesTwoWindowsOfItsRackAndOfTheFleet() {
        send("r", "06:26", 10);
        send("s", "06:26", 20);
        Map<String, String> last = last();
        assertEquals(6, last.size());
        assertTrue(last.get("fleet 06:20").contains("\"reading_count\":2"));
        assertTrue(last.get("fleet 06:25").contains("\"temperature_c_avg\":15.0"));
        assertTrue(last.get("r 06:20").contains("\"temperature_c_max\":10.0"));
        assertTrue(last.get("s 06:25").contains("\"reading_count\":1"));
    }

    @Test
    void aLateReadingCountsInTheWindowsThatAreOpen() {
        send("r", "06:50", 10);
        windows.readKeyValuesToList();
        send("r", "06:36", 20);
        assertEquals(2, last().size());
        send("r", "06:36", 30);
        Map<String, String> last = last();
        assertEquals("[fleet 06:35, r 06:35]", last.keySet().toString());
        assertTrue(last.get("fleet 06:35").contains("\"reading_count\":2"));
        send("r", "06:34", 30);
        assertTrue(windows.isEmpty());
    }

    @Test
    void malformedAndFutureReadingsAreLeftOut() {
        readings.pipeInput("r", "{}", APPENDED);
        send("r", "07:06", 10);
        assertTrue(windows.isEmpty());
        assertEquals(1, malformed.sum());
    }

    private void send(String rack, String time, double temperatureC) {
        String reading =
                """
                {"event_id":"e","event_time":"2026-11-21T%s:00Z","rack_id":"%s","sequence":1,\
                "site_id":"s","device_type":"d","temperature_c":%s,"signal_strength":1}"""
                        .formatted(time, rack, temperatureC);
        readings.pipeInput(rack, reading, APPENDED);
    }

    /** Return the last value of each new window, by its scope and the time of day at its start. */
    private Map<String, String> last() {
        Map<String, String> last = new TreeMap<>();
        windows.readKeyValuesToList()
                .forEach(
                        window -> {
                            String[] key = window.key.split("\\|");
                            last.put(key[0] + " " + key[1].substring(11, 16), window.value);
                        });
        return last;
    }
}
