package rackstream.shared;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;

/** Encodes an output record's value. */
final class JsonObject {
    private static final int INITIAL_BYTES = 256;
    private static final JsonFactory JSON = new JsonFactory();

    private JsonObject() {}

    /** Writes the fields of an object. */
    interface Fields {
        void write(JsonGenerator json) throws IOException;
    }

    /** Return the JSON object as UTF-8. */
    static byte[] encode(Fields fields) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream(INITIAL_BYTES);
        try (JsonGenerator json = JSON.createGenerator(bytes)) {
            json.writeStartObject();
            fields.write(json);
            json.writeEndObject();
        } catch (IOException impossible) {
            throw new UncheckedIOException("a buffer in memory failed", impossible);
        }
        return bytes.toByteArray();
    }
}
