package rackstream;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;

/** The racks of the inventory, a file of JSON lines; every other rack has the contract's defaults. */
final class Inventory implements Serializable {
    private static final Rack DEFAULT = new Rack(100.0, "error");

    private final HashMap<String, Rack> racks = new HashMap<>();

    /** At which temperature a rack is too hot, and how severe its WARNING is. */
    record Rack(double thresholdC, String severity) implements Serializable {}

    /** Read a file; without one (null) the inventory is empty. */
    static Inventory read(Path file) throws IOException {
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

    Rack rack(String rackId) {
        return racks.getOrDefault(rackId, DEFAULT);
    }
}
