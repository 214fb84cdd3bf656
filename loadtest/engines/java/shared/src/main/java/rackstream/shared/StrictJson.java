package rackstream.shared;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParseException;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadFeature;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.DateTimeException;

/**
 * Parses a record's value and rejects what violates the contract: a missing or wrong-typed field, a
 * time that is not UTC, a long id, anything after the object. Uses the streaming parser; data
 * binding takes more than twice as long.
 */
final class StrictJson {
    private static final int MAX_ID_BYTES = 256;
    private static final int MAX_BYTES_OF_CHAR = 3;

    // With charset detection UTF-16 would be accepted; the Spark job rejects it.
    private static final JsonFactory JSON =
            JsonFactory.builder()
                    .disable(JsonFactory.Feature.CHARSET_DETECTION)
                    .enable(StreamReadFeature.USE_FAST_DOUBLE_PARSER)
                    .build();

    private StrictJson() {}

    /** Reads the fields of an object up to its end. */
    interface Fields<T> {
        T read(JsonParser json) throws IOException;
    }

    /** Return the event, or null when the value violates the contract. */
    static <T> T parse(byte[] value, Fields<T> fields) {
        if (value == null) {
            return null;
        }
        try (JsonParser json = JSON.createParser(value)) {
            check(json.nextToken() == JsonToken.START_OBJECT, json);
            T event = fields.read(json);
            check(json.hasToken(JsonToken.END_OBJECT) && json.nextToken() == null, json);
            return event;
        } catch (IOException | DateTimeException unreadable) {
            return null;
        }
    }

    /** Move to the next field's value and return its name; null at the end of the fields. */
    static String nextField(JsonParser json) throws IOException {
        if (json.nextToken() != JsonToken.FIELD_NAME) {
            return null;
        }
        String name = json.currentName();
        json.nextToken();
        return name;
    }

    static String text(JsonParser json) throws IOException {
        check(json.hasToken(JsonToken.VALUE_STRING), json);
        return json.getText();
    }

    static String id(JsonParser json) throws IOException {
        String id = text(json);
        check(
                id.length() * MAX_BYTES_OF_CHAR <= MAX_ID_BYTES
                        || id.getBytes(StandardCharsets.UTF_8).length <= MAX_ID_BYTES,
                json);
        return id;
    }

    static long instant(JsonParser json) throws IOException {
        return Timestamps.parse(text(json));
    }

    static void optionalInstant(JsonParser json) throws IOException {
        if (!json.hasToken(JsonToken.VALUE_NULL)) {
            instant(json);
        }
    }

    static long integer(JsonParser json) throws IOException {
        check(json.hasToken(JsonToken.VALUE_NUMBER_INT), json);
        return json.getLongValue();
    }

    static double number(JsonParser json) throws IOException {
        check(json.currentToken().isNumeric(), json);
        double number = json.getDoubleValue();
        check(Double.isFinite(number), json);
        return number;
    }

    static void check(boolean good, JsonParser json) throws JsonParseException {
        if (!good) {
            throw new JsonParseException(json, "not an event of the contract");
        }
    }
}
