package rackstream.flink;

import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

import rackstream.shared.Arguments;
import rackstream.shared.Message;
import rackstream.shared.Panes;
import rackstream.shared.RackTemperature;
import rackstream.shared.Reading;

import java.io.IOException;

/**
 * How warm is each rack, and the whole fleet? Emits a scope's open windows whenever they change.
 *
 * <p>Two tasks: source and {@link MergedReadings}; windows and sink. State is the temperatures of
 * each pane (5 min), which two windows share: Flink's sliding windows would read and write each
 * window by itself. As there, a reading is left out of the windows that the watermark has closed.
 */
final class RackTemperatures extends KeyedProcessFunction<String, ScopedTemperatures, Message> {
    private transient ValueState<byte[]> state;

    RackTemperatures() {}

    static void build(StreamExecutionEnvironment flink, Arguments arguments) {
        if (arguments.updateIntervalMs() > 0) {
            // A watermark ends the merging of what came before it.
            flink.getConfig().setAutoWatermarkInterval(arguments.updateIntervalMs());
        }
        var windows =
                KafkaIo.read(
                                flink,
                                arguments,
                                "rack-readings",
                                Reading::parse,
                                Reading.class,
                                RackTemperature.WATERMARK_MS)
                        .transform(
                                "merged",
                                TypeInformation.of(ScopedTemperatures.class),
                                new MergedReadings(arguments.updateIntervalMs()))
                        .uid("merged")
                        .keyBy(ScopedTemperatures::scope)
                        .process(new RackTemperatures())
                        .uid("windows");
        // Four records a reading: the producer gathers them for as long as the Spark job's.
        KafkaIo.write(windows, arguments, "rack-temperature", 5);
    }

    @Override
    public void open(OpenContext context) {
        state =
                getRuntimeContext()
                        .getState(
                                new ValueStateDescriptor<>(
                                        "panes",
                                        PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO));
    }

    @Override
    public void processElement(
            ScopedTemperatures measured, Context context, Collector<Message> windows)
            throws IOException {
        long watermark = context.timerService().currentWatermark();
        if (Panes.isClosed(measured.paneMs(), watermark)) {
            return;
        }
        Panes panes = Panes.decode(state.value());
        if (panes.add(measured.paneMs(), measured.temperatures())) {
            context.timerService().registerEventTimeTimer(Panes.lastMs(measured.paneMs()));
        }
        state.update(panes.encode());
        for (long startMs = measured.paneMs();
                startMs > measured.paneMs() - RackTemperature.WINDOW_MS;
                startMs -= RackTemperature.SLIDE_MS) {
            if (!Panes.isClosed(startMs, watermark)) {
                windows.collect(
                        new RackTemperature(measured.scope(), startMs, panes.inWindow(startMs))
                                .message());
            }
        }
    }

    @Override
    public void onTimer(long timeMs, OnTimerContext context, Collector<Message> windows)
            throws IOException {
        Panes panes = Panes.decode(state.value());
        panes.removeClosed(timeMs);
        if (panes.isEmpty()) {
            state.clear();
        } else {
            state.update(panes.encode());
        }
    }
}
