package rackstream.shared;

import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;

/**
 * The command line, which both engines share: a job and its options.
 *
 * @param updateIntervalMs how often at most a job writes a result that changes with each record; 0:
 *     at each change
 */
public record Arguments(
        String job,
        String bootstrap,
        String prefix,
        Path inventory,
        Path state,
        int threads,
        int updateIntervalMs) {

    /**
     * Parse the command line; throw IllegalArgumentException with a sentence that names the
     * mistake.
     */
    public static Arguments of(String... words) {
        String bootstrap = null;
        String prefix = "";
        Path inventory = null;
        Path state = null;
        int threads = 2;
        int updateIntervalMs = 0;
        Deque<String> rest = new ArrayDeque<>(List.of(words));
        if (rest.isEmpty() || rest.peek().startsWith("-")) {
            throw new IllegalArgumentException("a job must be named first");
        }
        String job = rest.pop();
        while (!rest.isEmpty()) {
            String name = rest.pop();
            switch (name) {
                case "--bootstrap" -> bootstrap = value(name, rest);
                case "--prefix" -> prefix = value(name, rest);
                case "--inventory" -> inventory = Path.of(value(name, rest));
                case "--state" -> state = Path.of(value(name, rest));
                case "--threads" -> threads = integer(name, value(name, rest), 1);
                case "--update-interval-ms" ->
                        updateIntervalMs = integer(name, value(name, rest), 0);
                default -> throw new IllegalArgumentException("unknown option " + name);
            }
        }
        if (bootstrap == null || state == null) {
            throw new IllegalArgumentException(
                    "--bootstrap SERVERS and --state FOLDER are required");
        }
        return new Arguments(
                job, bootstrap, prefix, inventory, state, threads, updateIntervalMs);
    }

    private static String value(String name, Deque<String> rest) {
        if (rest.isEmpty()) {
            throw new IllegalArgumentException(name + " needs a value");
        }
        return rest.pop();
    }

    private static int integer(String name, String text, int least) {
        try {
            int number = Integer.parseInt(text);
            if (number >= least) {
                return number;
            }
        } catch (NumberFormatException notANumber) {
            // Reported below, like a number that is too small.
        }
        throw new IllegalArgumentException(
                name + " is " + text + ", but must be an integer of at least " + least);
    }
}
