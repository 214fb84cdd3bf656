package rackstream.streams;

import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.api.ContextualFixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;

import rackstream.shared.Arguments;
import rackstream.shared.Message;
import rackstream.shared.RackTemperature;
import rackstream.shared.Reading;
import rackstream.shared.Temperatures;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.concurrent.atomic.LongAdder;

/**
 * How warm is each rack, and the whole fleet? Writes a scope's windows whenever they change, or
 * with an update interval what has changed at each commit.
 *
 * <p>Racks are hopping windows of the DSL. The fleet is not: its readings would go through a
 * repartition topic to one task, whose stream time is that of the partition furthest ahead, and in
 * a backlog it would drop what the others bring more than the grace period later. So each task
 * computes the windows of its own partition, by its own stream time, and only those are brought
 * together (see {@link FleetShare}).
 */
final class RackTemperatures {
    private static final TimeWindows WINDOWS =
            TimeWindows.ofSizeAndGrace(
                            Duration.ofMillis(RackTemperature.WINDOW_MS),
                            Duration.ofMillis(RackTemperature.WATERMARK_MS))
                    .advanceBy(Duration.ofMillis(RackTemperature.SLIDE_MS));
    private static final Serde<Temperatures> TEMPERATURES =
            Serdes.serdeFrom(
                    (topic, temperatures) -> {
                        ByteBuffer bytes = ByteBuffer.allocate(Temperatures.BYTES);
                        temperatures.put(bytes);
                        return bytes.array();
                    },
                    (topic, bytes) ->
                            bytes == null ? null : Temperatures.get(ByteBuffer.wrap(bytes)));

    private RackTemperatures() {}

    static Topology topology(Arguments arguments, LongAdder malformed) {
        boolean merges = arguments.updateIntervalMs() > 0;
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, Temperatures> measured =
                builder.stream(
                                arguments.prefix() + "rack-readings",
                                Consumed.with(Serdes.String(), Serdes.ByteArray()))
                        .processValues(() -> new Measured(malformed));
        KStream<byte[], byte[]> racks =
                measured.groupByKey(Grouped.with(Serdes.String(), TEMPERATURES))
                        .windowedBy(WINDOWS)
                        .aggregate(
                                () -> Temperatures.NONE,
                                (rack, one, all) -> all.plus(one),
                                stored("racks", Serdes.String(), TEMPERATURES, merges))
                        .toStream()
                        .map(
                                (window, all) ->
                                        record(window.key(), window.window().start(), all));
        KStream<byte[], byte[]> fleet =
                measured.process(FleetShare.supplier(arguments.updateIntervalMs()))
                        .groupByKey(Grouped.with("shares", Serdes.Long(), FleetShare.SERDE))
                        .aggregate(
                                FleetShare.Shares::new,
                                (startMs, share, shares) -> shares.with(share),
                                stored("fleet", Serdes.Long(), FleetShare.SHARES_SERDE, merges))
                        .toStream()
                        .map(
                                (startMs, shares) ->
                                        record(RackTemperature.FLEET, startMs, shares.all()));
        racks.merge(fleet)
                .to(
                        arguments.prefix() + "rack-temperature",
                        Produced.with(Serdes.ByteArray(), Serdes.ByteArray()));
        return builder.build();
    }

    /** Return a store in RocksDB; with a cache, its changes are forwarded once per commit. */
    private static <K, V, S extends StateStore> Materialized<K, V, S> stored(
            String name, Serde<K> keys, Serde<V> values, boolean merges) {
        Materialized<K, V, S> store =
                Materialized.<K, V, S>as(name).withKeySerde(keys).withValueSerde(values);
        return merges ? store.withCachingEnabled() : store.withCachingDisabled();
    }

    private static KeyValue<byte[], byte[]> record(
            String scope, long startMs, Temperatures temperatures) {
        Message message = new RackTemperature(scope, startMs, temperatures).message();
        return KeyValue.pair(message.key(), message.value());
    }

    /** Parses readings, and gives each the time at which it happened instead of its append time. */
    private static final class Measured
            extends ContextualFixedKeyProcessor<String, byte[], Temperatures> {
        private final LongAdder malformed;

        Measured(LongAdder malformed) {
            this.malformed = malformed;
        }

        @Override
        public void process(FixedKeyRecord<String, byte[]> input) {
            Reading reading = Reading.parse(input.value());
            if (reading == null) {
                malformed.increment();
            } else if (!reading.isFuture(input.timestamp()) && reading.eventMs() >= 0) {
                // Kafka has no times before 1970; such a reading is late in any case.
                context()
                        .forward(
                                input.withValue(Temperatures.of(reading.temperatureC()))
                                        .withTimestamp(reading.eventMs()));
            }
        }
    }
}
