package rackstream.flink;

import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.co.KeyedCoProcessFunction;
import org.apache.flink.util.Collector;

import rackstream.shared.AdAttribution;
import rackstream.shared.Arguments;
import rackstream.shared.Click;
import rackstream.shared.Impression;
import rackstream.shared.Message;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;

/**
 * Which impressions led to which clicks? Emits a row for each distinct click as soon as both events
 * are there, and one for an impression without a click once none can come any more.
 *
 * <p>Three tasks: two sources; join and sink. It is a low-level join, because Flink's interval join
 * of two streams has no outer rows. The watermark is that of the input that is further behind. As
 * in Spark, what is behind it is dropped, so timers by event time can remove all state: an
 * impression when no click can come any more, a click without one when no impression can. State
 * with a time-to-live is not needed; it would go by the clock.
 */
final class AdAttributions extends KeyedCoProcessFunction<String, Impression, Click, Message> {
    private transient ValueState<Shown> impression;
    private transient ListState<Click> clicks;

    /** An impression, and whether it has a row. */
    public record Shown(String adId, String userId, long eventMs, boolean clicked) {
        static Shown of(Impression shown, boolean clicked) {
            return new Shown(shown.adId(), shown.userId(), shown.eventMs(), clicked);
        }

        Impression impression(String impressionId) {
            return new Impression(impressionId, adId, userId, eventMs);
        }
    }

    AdAttributions() {}

    static void build(StreamExecutionEnvironment flink, Arguments arguments)
            throws ExecutionException, InterruptedException {
        // A task for each partition, so that the last record of a topic, although it is in one
        // partition, moves the watermark after the others have become idle.
        var impressions =
                KafkaIo.read(
                                flink,
                                arguments,
                                "ad-impressions",
                                Impression::parse,
                                Impression.class,
                                AdAttribution.IMPRESSIONS_WATERMARK_MS)
                        .setParallelism(KafkaIo.partitions(arguments, "ad-impressions"));
        var clicks =
                KafkaIo.read(
                                flink,
                                arguments,
                                "ad-clicks",
                                Click::parse,
                                Click.class,
                                AdAttribution.CLICKS_WATERMARK_MS)
                        .setParallelism(KafkaIo.partitions(arguments, "ad-clicks"));
        var rows =
                impressions
                        .connect(clicks)
                        .keyBy(Impression::impressionId, Click::impressionId)
                        .process(new AdAttributions())
                        .uid("join");
        KafkaIo.write(rows, arguments, "ad-attribution", 5);
    }

    @Override
    public void open(OpenContext context) {
        impression =
                getRuntimeContext()
                        .getState(
                                new ValueStateDescriptor<>(
                                        "impression", TypeInformation.of(Shown.class)));
        clicks =
                getRuntimeContext()
                        .getListState(
                                new ListStateDescriptor<>(
                                        "clicks", TypeInformation.of(Click.class)));
    }

    @Override
    public void processElement1(Impression shown, Context context, Collector<Message> rows)
            throws Exception {
        if (shown.eventMs() <= context.timerService().currentWatermark()
                || impression.value() != null) {
            return;
        }
        boolean clicked = false;
        for (Click click : clicks.get()) {
            if (AdAttribution.joins(shown, click)) {
                rows.collect(new AdAttribution(shown, click).message());
                clicked = true;
            }
        }
        impression.update(Shown.of(shown, clicked));
        context.timerService()
                .registerEventTimeTimer(shown.eventMs() + AdAttribution.CLICK_WITHIN_MS);
    }

    @Override
    public void processElement2(Click click, Context context, Collector<Message> rows)
            throws Exception {
        if (click.eventMs() <= context.timerService().currentWatermark() || isCopy(click)) {
            return;
        }
        Shown found = impression.value();
        if (found == null) {
            clicks.add(click);
            context.timerService().registerEventTimeTimer(click.eventMs());
            return;
        }
        Impression shown = found.impression(click.impressionId());
        if (AdAttribution.joins(shown, click)) {
            clicks.add(click);
            rows.collect(new AdAttribution(shown, click).message());
            if (!found.clicked()) {
                impression.update(Shown.of(shown, true));
            }
        }
    }

    private boolean isCopy(Click click) throws Exception {
        for (Click other : clicks.get()) {
            if (other.eventId().equals(click.eventId())) {
                return true;
            }
        }
        return false;
    }

    @Override
    public void onTimer(long timeMs, OnTimerContext context, Collector<Message> rows)
            throws Exception {
        Shown found = impression.value();
        if (found == null) {
            removeClicksUntil(timeMs);
        } else if (timeMs >= found.eventMs() + AdAttribution.CLICK_WITHIN_MS) {
            if (!found.clicked()) {
                Impression shown = found.impression(context.getCurrentKey());
                rows.collect(new AdAttribution(shown, null).message());
            }
            impression.clear();
            clicks.clear();
        }
    }

    /** Remove clicks whose impression, of their time or before, would be too late. */
    private void removeClicksUntil(long timeMs) throws Exception {
        List<Click> later = new ArrayList<>();
        for (Click click : clicks.get()) {
            if (click.eventMs() > timeMs) {
                later.add(click);
            }
        }
        clicks.update(later);
    }
}
