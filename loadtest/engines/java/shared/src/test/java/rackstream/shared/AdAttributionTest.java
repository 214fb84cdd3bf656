package rackstream.shared;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

import java.nio.charset.StandardCharsets;

class AdAttributionTest {
    private static final long T0_MS = 1_795_242_360_123L;
    private static final long HOUR_MS = 3_600_000;
    private static final Impression SHOWN = new Impression("i", "a", "u", T0_MS);

    @Test
    void aClickJoinsFromItsImpressionUntilAnHourLater() {
        assertFalse(AdAttribution.joins(SHOWN, click(-1)));
        assertTrue(AdAttribution.joins(SHOWN, click(0)));
        assertTrue(AdAttribution.joins(SHOWN, click(HOUR_MS)));
        assertFalse(AdAttribution.joins(SHOWN, click(HOUR_MS + 1)));
    }

    @Test
    void aRowIsWrittenAsTheContractSays() {
        String start =
                "{'impression_id':'i','ad_id':'a','user_id':'u',"
                        + "'impression_time':'2026-11-21T06:26:00.123Z',";
        assertEquals(
                start + "'click_id':'c','click_time':'2026-11-21T06:26:01.623Z',"
                        + "'seconds_to_click':1.5}",
                json(new AdAttribution(SHOWN, click(1500))));
        assertEquals(
                start + "'click_id':null,'click_time':null,'seconds_to_click':null}",
                json(new AdAttribution(SHOWN, null)));
    }

    @Test
    void impressionsThatViolateTheContractAreRejected() {
        String good =
                "{'event_id':'e','event_time':'2026-11-21T06:26:00.123Z','impression_id':'i',"
                        + "'ad_id':'a','user_id':'u','page':'p','scheduled_time':null,'more':1}";
        assertEquals(SHOWN, Impression.parse(bytes(good)));
        String[] required = {"event_id", "impression_id", "ad_id", "user_id", "page"};
        for (String field : required) {
            assertNull(Impression.parse(bytes(good.replace("'" + field + "'", "'other'"))), field);
        }
        assertNull(Impression.parse(bytes(good.replace("'p'", "5"))));
        assertNull(Impression.parse(bytes(good.replace("'i'", "'" + "i".repeat(257) + "'"))));
        assertNotNull(Impression.parse(bytes(good.replace("'p'", "'" + "p".repeat(257) + "'"))));
        assertNull(Impression.parse(bytes(good.replace("null", "'today'"))));
    }

    @Test
    void clicksThatViolateTheContractAreRejected() {
        String good =
                "{'event_id':'e','event_time':'2026-11-21T06:26:00.123Z','click_id':'c',"
                        + "'impression_id':'i','ad_id':'a','user_id':'u'}";
        assertEquals(click(0), Click.parse(bytes(good)));
        for (String field :
                new String[] {"event_id", "click_id", "impression_id", "ad_id", "user_id"}) {
            assertNull(Click.parse(bytes(good.replace("'" + field + "'", "'other'"))), field);
        }
        assertNull(Click.parse(bytes(good.replace("Z'", "'"))));
    }

    @Test
    void anEventMoreThanFiveMinutesAheadOfItsAppendTimeIsInTheFuture() {
        assertFalse(SHOWN.isFuture(T0_MS - 300_000));
        assertTrue(SHOWN.isFuture(T0_MS - 300_001));
    }

    private static Click click(long afterMs) {
        return new Click("e", "c", "i", T0_MS + afterMs);
    }

    private static String json(AdAttribution row) {
        return new String(row.message().value(), StandardCharsets.UTF_8).replace('"', '\'');
    }

    private static byte[] bytes(String json) {
        return json.replace('\'', '"').getBytes(StandardCharsets.UTF_8);
    }
}
