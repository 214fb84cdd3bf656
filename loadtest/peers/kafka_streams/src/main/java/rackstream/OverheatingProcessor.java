package rackstream;

import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.LongAdder;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;

/** Takes one reading after the other, and forwards an alert for each that changes its rack's state. */
final class OverheatingProcessor implements Processor<byte[], byte[], byte[], byte[]> {
    static final String STORE = "racks";

    private final Inventory inventory;
    private final LongAdder unreadable;
    private ProcessorContext<byte[], byte[]> context;
    private KeyValueStore<String, byte[]> racks;

    OverheatingProcessor(Inventory inventory, LongAdder unreadable) {
        this.inventory = inventory;
        this.unreadable = unreadable;
    }

    @Override
    public void init(ProcessorContext<byte[], byte[]> context) {
        this.context = context;
        this.racks = context.getStateStore(STORE);
    }

    @Override
    public void process(Record<byte[], byte[]> input) {
        Reading reading = ReadingReader.read(input.value());
        if (reading == null) {
            unreadable.increment();
            return;
        }
        Inventory.Rack rack = inventory.rack(reading.rackId());
        Evidence[] before = StateBytes.decode(racks.get(reading.rackId()));
        Evidence[] after = Rule.take(before, Evidence.of(reading, rack.thresholdC()));
        if (after == before) {
            return;
        }
        racks.put(reading.rackId(), StateBytes.encode(after));
        if (Rule.warning(after) != Rule.warning(before)) {
            Alert alert = Alert.of(reading, after, rack, System.currentTimeMillis());
            byte[] subject = alert.subject().getBytes(StandardCharsets.UTF_8);
            context.forward(new Record<>(subject, AlertWriter.write(alert), input.timestamp()));
        }
    }
}
