package rackstream;

import java.io.IOException;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/** Takes one reading after the other, and collects an alert for each that changes its rack's state. */
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
                                        "racks", PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO));
    }

    @Override
    public void processElement(Reading reading, Context context, Collector<Alert> alerts) throws IOException {
        Inventory.Rack rack = inventory.rack(reading.rackId());
        Evidence[] before = StateBytes.decode(state.value());
        Evidence[] after = Rule.take(before, Evidence.of(reading, rack.thresholdC()));
        if (after == before) {
            return;
        }
        state.update(StateBytes.encode(after));
        if (Rule.warning(after) != Rule.warning(before)) {
            alerts.collect(Alert.of(reading, after, rack, System.currentTimeMillis()));
        }
    }
}
