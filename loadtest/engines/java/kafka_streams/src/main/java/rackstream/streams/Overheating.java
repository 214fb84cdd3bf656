package rackstream.streams;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

import rackstream.shared.Alert;
import rackstream.shared.Arguments;
import rackstream.shared.Evidence;
import rackstream.shared.Inventory;
import rackstream.shared.Message;
import rackstream.shared.Reading;
import rackstream.shared.Rule;
import rackstream.shared.StateCodec;

import java.io.IOException;
import java.util.Map;
import java.util.concurrent.atomic.LongAdder;

/**
 * Which racks overheat? Forwards an alert for each reading that changes its rack's state.
 *
 * <p>The topology is a source, one processor with one persistent store, and a sink. It needs no
 * repartitioning, because the topic's key is the rack. It never forgets a rack (some 150 bytes
 * each, in the store and in its changelog).
 */
final class Overheating implements Processor<byte[], byte[], byte[], byte[]> {
    private static final String STORE = "racks";

    private final Inventory inventory;
    private final LongAdder malformed;
    private ProcessorContext<byte[], byte[]> context;
    private KeyValueStore<String, byte[]> racks;

    private Overheating(Inventory inventory, LongAdder malformed) {
        this.inventory = inventory;
        this.malformed = malformed;
    }

    static Topology topology(Arguments arguments, LongAdder malformed) throws IOException {
        Inventory inventory = Inventory.read(arguments.inventory());
        var bytes = Serdes.ByteArray();
        // With the cache, state goes to RocksDB and the changelog once per commit, not once per
        // reading.
        var racks =
                Stores.keyValueStoreBuilder(
                                Stores.persistentKeyValueStore(STORE), Serdes.String(), bytes)
                        .withCachingEnabled()
                        .withLoggingEnabled(Map.of());
        return new Topology()
                .addSource(
                        "readings",
                        bytes.deserializer(),
                        bytes.deserializer(),
                        arguments.prefix() + "rack-readings")
                .addProcessor("rule", () -> new Overheating(inventory, malformed), "readings")
                .addStateStore(racks, "rule")
                .addSink(
                        "alerts",
                        arguments.prefix() + "alerts",
                        bytes.serializer(),
                        bytes.serializer(),
                        "rule");
    }

    @Override
    public void init(ProcessorContext<byte[], byte[]> context) {
        this.context = context;
        this.racks = context.getStateStore(STORE);
    }

    @Override
    public void process(Record<byte[], byte[]> input) {
        Reading reading = Reading.parse(input.value());
        if (reading == null) {
            malformed.increment();
            return;
        }
        Inventory.Rack rack = inventory.rack(reading.rackId());
        Evidence[] before = StateCodec.decode(racks.get(reading.rackId()));
        Evidence[] after = Rule.update(before, Evidence.of(reading, rack.thresholdC()));
        if (after == before) {
            return;
        }
        racks.put(reading.rackId(), StateCodec.encode(after));
        if (Rule.isWarning(after) != Rule.isWarning(before)) {
            Alert alert = Alert.of(reading, after, rack, System.currentTimeMillis());
            Message message = alert.message();
            context.forward(new Record<>(message.key(), message.value(), input.timestamp()));
        }
    }
}
