package rackstream.flink;

import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

import rackstream.shared.Alert;
import rackstream.shared.Arguments;
import rackstream.shared.Evidence;
import rackstream.shared.Inventory;
import rackstream.shared.Message;
import rackstream.shared.Reading;
import rackstream.shared.Rule;
import rackstream.shared.StateCodec;

import java.io.IOException;

/**
 * Which racks overheat? Emits an alert for each reading that changes its rack's state.
 *
 * <p>Two tasks: source; rule and sink. Readings are partitioned by rack between them and keep the
 * order of their partition. It never forgets a rack (some 150 bytes each).
 */
final class Overheating extends KeyedProcessFunction<String, Reading, Message> {
    private final Inventory inventory;
    private transient ValueState<byte[]> state;

    private Overheating(Inventory inventory) {
        this.inventory = inventory;
    }

    static void build(StreamExecutionEnvironment flink, Arguments arguments) throws IOException {
        // No watermarks: the rule orders readings by the gateway's sequence.
        var alerts =
                KafkaIo.read(flink, arguments, "rack-readings", Reading::parse, Reading.class)
                        .keyBy(Reading::rackId)
                        .process(new Overheating(Inventory.read(arguments.inventory())))
                        .uid("rule");
        // Send each alert at once.
        KafkaIo.write(alerts, arguments, "alerts", 0);
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
    public void processElement(Reading reading, Context context, Collector<Message> alerts)
            throws IOException {
        Inventory.Rack rack = inventory.rack(reading.rackId());
        Evidence[] before = StateCodec.decode(state.value());
        Evidence[] after = Rule.update(before, Evidence.of(reading, rack.thresholdC()));
        if (after == before) {
            return;
        }
        state.update(StateCodec.encode(after));
        if (Rule.isWarning(after) != Rule.isWarning(before)) {
            alerts.collect(Alert.of(reading, after, rack, System.currentTimeMillis()).message());
        }
    }
}
