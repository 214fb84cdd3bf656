package rackstream.flink;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.operators.co.KeyedCoProcessOperator;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.util.KeyedTwoInputStreamOperatorTestHarness;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

import rackstream.shared.AdAttribution;
import rackstream.shared.Click;
import rackstream.shared.Impression;
import rackstream.shared.Message;

import java.nio.charset.StandardCharsets;
import java.util.List;

class AdAttributionsTest {
    private static final long T0_MS = 1_795_242_360_000L;
    private static final long HOUR_MS = AdAttribution.CLICK_WITHIN_MS;

    private KeyedTwoInputStreamOperatorTestHarness<String, Impression, Click, Message> join;

    @BeforeEach
    void start() throws Exception {
        join =
                new KeyedTwoInputStreamOperatorTestHarness<>(
                        new KeyedCoProcessOperator<>(new AdAttributions()),
                        Impression::impressionId,
                        Click::impressionId,
                        Types.STRING);
        join.open();
    }

    @AfterEach
    void stop() throws Exception {
        join.close();
    }

    @Test
    void aClickJoinsAtOnceInWhateverOrderBothCome() throws Exception {
        show("a", 0);
        click("a", "first", 0);
        click("a", "second", HOUR_MS);
        click("a", "too-late-to-join", HOUR_MS + 1);
        click("b", "early", 5);
        show("b", 5);
        assertEquals(List.of("a first", "a second", "b early"), rows());
        watermark(3 * HOUR_MS);
        assertEquals(3, rows().size());
        assertEquals(0, join.numKeyedStateEntries());
    }

    @Test
    void copiesChangeNothing() throws Exception {
        click("a", "x", 1);
        click("a", "x", 1);
        show("a", 0);
        show("a", 0);
        click("a", "x", 1);
        assertEquals(List.of("a x"), rows());
    }

    @Test
    void anUnclickedImpressionHasItsRowOnceNoClickCanCome() throws Exception {
        show("a", 0);
        watermark(HOUR_MS - 1);
        assertEquals(List.of(), rows());
        watermark(HOUR_MS);
        assertEquals(List.of("a null"), rows());
        click("a", "late", HOUR_MS);
        show("a", 0);
        watermark(3 * HOUR_MS);
        assertEquals(List.of("a null"), rows());
        assertEquals(0, join.numKeyedStateEntries());
    }

    @Test
    void aClickWaitsUntilNoImpressionCanCome() throws Exception {
        click("a", "x", 10);
        click("a", "y", 20);
        watermark(10);
        show("a", 15);
        assertEquals(List.of("a y"), rows());
        click("b", "orphan", 30);
        watermark(3 * HOUR_MS);
        assertEquals(List.of("a y"), rows());
        assertEquals(0, join.numKeyedStateEntries());
    }

    private void show(String impressionId, long atMs) throws Exception {
        Impression shown = new Impression(impressionId, "ad", "user", T0_MS + atMs);
        join.processElement1(shown, shown.eventMs());
    }

    private void click(String impressionId, String id, long atMs) throws Exception {
        Click click = new Click(id, id, impressionId, T0_MS + atMs);
        join.processElement2(click, click.eventMs());
    }

    private void watermark(long atMs) throws Exception {
        join.processWatermark1(new Watermark(T0_MS + atMs));
        join.processWatermark2(new Watermark(T0_MS + atMs));
    }

    /** Return impression and click of each row so far. */
    private List<String> rows() {
        return join.extractOutputValues().stream()
                .map(
                        row ->
                                text(row.key())
                                        + " "
                                        + text(row.value())
                                                .replaceFirst(
                                                        ".*\"click_id\":\"?([^\",]*).*", "$1"))
                .toList();
    }

    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
