package rackstream.flink;

import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

import rackstream.shared.Panes;
import rackstream.shared.RackTemperature;
import rackstream.shared.Reading;
import rackstream.shared.Temperatures;

import java.util.HashMap;

/**
 * Emits each reading for its rack and for the fleet; with an update interval, merges what falls
 * into one pane of a scope meanwhile.
 *
 * <p>It is the local half of what Flink SQL calls a local-global aggregation of mini-batches: the
 * fleet is a single key, whose every reading would go to one task. Nothing is held over a watermark
 * or a checkpoint.
 */
final class MergedReadings extends AbstractStreamOperator<ScopedTemperatures>
        implements OneInputStreamOperator<Reading, ScopedTemperatures> {
    private static final int MAX_HELD = 50_000;

    private final long intervalMs;
    private transient HashMap<Pane, Temperatures> held;

    private record Pane(String scope, long startMs) {}

    MergedReadings(long intervalMs) {
        this.intervalMs = intervalMs;
    }

    @Override
    public void open() throws Exception {
        super.open();
        held = new HashMap<>();
        if (intervalMs > 0) {
            flushLater();
        }
    }

    @Override
    public void processElement(StreamRecord<Reading> element) {
        Reading reading = element.getValue();
        long paneMs = Panes.startMs(reading.eventMs());
        Temperatures measured = Temperatures.of(reading.temperatureC());
        for (String scope : new String[] {RackTemperature.FLEET, reading.rackId()}) {
            if (intervalMs > 0) {
                held.merge(new Pane(scope, paneMs), measured, Temperatures::plus);
            } else {
                emit(scope, paneMs, measured);
            }
        }
        if (held.size() >= MAX_HELD) {
            flush();
        }
    }

    @Override
    public void processWatermark(Watermark mark) throws Exception {
        flush();
        super.processWatermark(mark);
    }

    @Override
    public void prepareSnapshotPreBarrier(long checkpointId) {
        flush();
    }

    private void flushLater() {
        var clock = getProcessingTimeService();
        clock.registerTimer(
                clock.getCurrentProcessingTime() + intervalMs,
                time -> {
                    flush();
                    flushLater();
                });
    }

    private void flush() {
        held.forEach((pane, measured) -> emit(pane.scope, pane.startMs, measured));
        held.clear();
    }

    private void emit(String scope, long paneMs, Temperatures measured) {
        output.collect(new StreamRecord<>(ScopedTemperatures.of(scope, paneMs, measured)));
    }
}
