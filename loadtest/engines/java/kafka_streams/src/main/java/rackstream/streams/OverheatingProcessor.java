package rackstream.streams;

import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;

import rackstream.rule.Alert;
import rackstream.rule.AlertEncoder;
import rackstream.rule.Evidence;
import rackstream.rule.Inventory;
import rackstream.rule.Reading;
import rackstream.rule.ReadingParser;
import rackstream.rule.Rule;
import rackstream.rule.StateCodec;

import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.LongAdder;

/** Forwards an alert for each reading that changes its rack's state. */
final class OverheatingProcessor implements Processor<byte[], byte[], byte[], byte[]> {
    static final String STORE = "racks";

    private final Inventory inventory;
    private final LongAdder malformed;
    private ProcessorContext<byte[], byte[]> context;
    private KeyValueStore<String, byte[]> racks;

    OverheatingProcessor(Inventory inventory, LongAdder malformed) {
        this.inventory = inventory;
        this.malformed = malformed;
    }

    @Override
    public void init(ProcessorContext<byte[], byte[]> context) {
        this.context = context;
        this.racks = context.getStateStore(STORE);
    }

    @Override
    public void process(Record<byte[], byte[]> input) {
        Reading reading = ReadingParser.parse(input.value());
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
            byte[] subject = alert.subject().getBytes(StandardCharsets.UTF_8);
            context.forward(new Record<>(subject, AlertEncoder.encode(alert), input.timestamp()));
        }
    }
}
