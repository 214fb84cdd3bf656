package rackstream.shared;

import java.nio.ByteBuffer;
import java.util.TreeMap;

/** The temperatures of one scope by panes: windows begin and end where panes do. */
public final class Panes {
    private static final int BYTES = Long.BYTES + Temperatures.BYTES;

    private final TreeMap<Long, Temperatures> byStart = new TreeMap<>();

    private Panes() {}

    /** Return the start of the pane that contains a time. */
    public static long startMs(long eventMs) {
        return eventMs - Math.floorMod(eventMs, RackTemperature.SLIDE_MS);
    }

    /** Return the last time of the window that starts with a pane, which is the pane's last one. */
    public static long lastMs(long startMs) {
        return startMs + RackTemperature.WINDOW_MS - 1;
    }

    /** Return whether that window, and so every window of the pane, is closed. */
    public static boolean isClosed(long startMs, long watermark) {
        return lastMs(startMs) <= watermark;
    }

    /** Add temperatures to a pane; return whether it is a new one. */
    public boolean add(long startMs, Temperatures temperatures) {
        return byStart.merge(startMs, temperatures, Temperatures::plus) == temperatures;
    }

    /** Return the temperatures of the window that starts here, which has some. */
    public Temperatures inWindow(long startMs) {
        Temperatures found = null;
        for (long paneMs = startMs;
                paneMs < startMs + RackTemperature.WINDOW_MS;
                paneMs += RackTemperature.SLIDE_MS) {
            Temperatures pane = byStart.get(paneMs);
            if (pane != null) {
                found = found == null ? pane : found.plus(pane);
            }
        }
        return found;
    }

    /** Return the starts of the panes that have temperatures. */
    public Iterable<Long> starts() {
        return byStart.keySet();
    }

    public void removeClosed(long watermark) {
        byStart.headMap(watermark).keySet().removeIf(startMs -> isClosed(startMs, watermark));
    }

    public boolean isEmpty() {
        return byStart.isEmpty();
    }

    /** Return the panes as bytes for RocksDB. */
    public byte[] encode() {
        ByteBuffer bytes = ByteBuffer.allocate(byStart.size() * BYTES);
        byStart.forEach((startMs, temperatures) -> temperatures.put(bytes.putLong(startMs)));
        return bytes.array();
    }

    /** Return the panes of a state; none for null, the state of a new scope. */
    public static Panes decode(byte[] state) {
        Panes panes = new Panes();
        if (state != null) {
            ByteBuffer bytes = ByteBuffer.wrap(state);
            while (bytes.hasRemaining()) {
                panes.byStart.put(bytes.getLong(), Temperatures.get(bytes));
            }
        }
        return panes;
    }
}
