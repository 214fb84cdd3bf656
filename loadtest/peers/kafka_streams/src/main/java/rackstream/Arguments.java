package rackstream;

import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;

/** The command line; what is wrong with it is said in a sentence that names the argument. */
record Arguments(
        String bootstrap, String prefix, Path inventory, Path state, int threads, boolean exactlyOnce) {

    static Arguments of(String... words) {
        String bootstrap = null;
        String prefix = "";
        Path inventory = null;
        Path state = null;
        int threads = 2;
        boolean exactlyOnce = false;
        Deque<String> rest = new ArrayDeque<>(List.of(words));
        while (!rest.isEmpty()) {
            String name = rest.pop();
            switch (name) {
                case "--bootstrap" -> bootstrap = value(name, rest);
                case "--prefix" -> prefix = value(name, rest);
                case "--inventory" -> inventory = Path.of(value(name, rest));
                case "--state" -> state = Path.of(value(name, rest));
                case "--threads" -> threads = positive(name, value(name, rest));
                case "--exactly-once" -> exactlyOnce = true;
                default -> throw new IllegalArgumentException(name + " is not known");
            }
        }
        if (bootstrap == null || state == null) {
            throw new IllegalArgumentException("--bootstrap SERVERS and --state FOLDER are needed");
        }
        return new Arguments(bootstrap, prefix, inventory, state, threads, exactlyOnce);
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
            // The same sentence as for a number that is too small.
        }
        throw new IllegalArgumentException(name + " is " + text + ", but must be a whole number from 1 on");
    }
}
