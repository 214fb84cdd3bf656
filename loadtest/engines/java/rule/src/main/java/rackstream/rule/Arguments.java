package rackstream.rule;

import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;

/** The command line's options, which both engines share. */
public record Arguments(String bootstrap, String prefix, Path inventory, Path state, int threads) {

    /**
     * Parse the options; throw IllegalArgumentException with a sentence that names the wrong one.
     */
    public static Arguments of(String... words) {
        String bootstrap = null;
        String prefix = "";
        Path inventory = null;
        Path state = null;
        int threads = 2;
        Deque<String> rest = new ArrayDeque<>(List.of(words));
        while (!rest.isEmpty()) {
            String name = rest.pop();
            switch (name) {
                case "--bootstrap" -> bootstrap = value(name, rest);
                case "--prefix" -> prefix = value(name, rest);
                case "--inventory" -> inventory = Path.of(value(name, rest));
                case "--state" -> state = Path.of(value(name, rest));
                case "--threads" -> threads = positive(name, value(name, rest));
                default -> throw new IllegalArgumentException("unknown option " + name);
            }
        }
        if (bootstrap == null || state == null) {
            throw new IllegalArgumentException(
                    "--bootstrap SERVERS and --state FOLDER are required");
        }
        return new Arguments(bootstrap, prefix, inventory, state, threads);
    }

    private static String value(String name, Deque<String> rest) {
        if (rest.isEmpty()) {
            throw new IllegalArgumentException(name + " needs a value");
        }
        return rest.pop();
    }

    private static int positive(String name, String text) {
        try {
            int number = Integer.parseInt(text);
            if (number > 0) {
                return number;
            }
        } catch (NumberFormatException notANumber) {
            // Reported below, like a number that is too small.
        }
        throw new IllegalArgumentException(
                name + " is " + text + ", but must be an integer of at least 1");
    }
}
