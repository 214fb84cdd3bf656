package rackstream.shared;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;

/** The inventory's racks, from a file of JSON lines; any other rack has the contract's defaults. */
public final class Inventory implements Serializable {
    private static final Rack DEFAULT = new Rack(100.0, "error");

    private final HashMap<String, Rack> racks = new HashMap<>();

    /** A rack's threshold, and the severity of its WARNING. */
    public record Rack(double thresholdC, String severity) implements Serializable {}

    /** Read the file; null gives an empty inventory. */
    public static Inventory read(Path file) throws IOException {
        Inventory inventory = new Inventory();
        if (file == null) {
            return inventory;
        }
        ObjectMapper mapper = new ObjectMapper();
        for (String line : Files.readAllLines(file)) {
            if (!line.isBlank()) {
                JsonNode rack = mapper.readTree(line);
                inventory.racks.put(
                        rack.required("rack_id").textValue(),
                        new Rack(
                                rack.required("threshold_c").doubleValue(),
                                rack.path("severity").asText(DEFAULT.severity)));
            }
        }
        return inventory;
    }

    /** Return a rack's threshold and severity. */
    public Rack rack(String rackId) {
        return racks.getOrDefault(rackId, DEFAULT);
    }
}
