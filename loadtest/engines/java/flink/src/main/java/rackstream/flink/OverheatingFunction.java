package rackstream.flink;

import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

import rackstream.rule.Alert;
import rackstream.rule.Evidence;
import rackstream.rule.Inventory;
import rackstream.rule.Reading;
import rackstream.rule.Rule;
import rackstream.rule.StateCodec;

import java.io.IOException;

/** Emits an alert for each reading that changes its rack's state. */
final class OverheatingFunction extends KeyedProcessFunction<String, Reading, Alert> {
    private final Inventory inventory;
    private transient ValueState<byte[]> state;

    OverheatingFunction(Inventory inventory) {
        this.inventory = inventory;
    }

    @Override
    public void open(OpenContext context) {
        state =
                getRuntimeContext()
                        .getState(
                                new ValueStateDescriptor<>(
                                        "racks",
                                        PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO));
    }

    @Override
    public void processElement(Reading reading, Context context, Collector<Alert> alerts)
            throws IOException {
        Inventory.Rack rack = inventory.rack(reading.rackId());
        Evidence[] before = StateCodec.decode(state.value());
        Evidence[] after = Rule.update(before, Evidence.of(reading, rack.thresholdC()));
        if (after == before) {
            return;
        }
        state.update(StateCodec.encode(after));
        if (Rule.isWarning(after) != Rule.isWarning(before)) {
            alerts.collect(Alert.of(reading, after, rack, System.currentTimeMillis()));
        }
    }
}
