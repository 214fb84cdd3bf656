package rackstream.shared;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/**
 * Encodes a rack's last readings for RocksDB.
 *
 * <p>State is read and written with each reading, so the format is compact: some 150 bytes, without
 * field names or reflection.
 */
public final class StateCodec {
    private static final Evidence[] EMPTY = {};
    private static final int FIXED = Long.BYTES + Long.BYTES + Double.BYTES + 1 + Short.BYTES;

    private StateCodec() {}

    /** Return the readings as bytes. */
    public static byte[] encode(Evidence[] last) {
        byte[][] ids = new byte[last.length][];
        int size = 1;
        for (int i = 0; i < last.length; i++) {
            ids[i] = last[i].eventId().getBytes(StandardCharsets.UTF_8);
            size += FIXED + ids[i].length;
        }
        ByteBuffer bytes = ByteBuffer.allocate(size).put((byte) last.length);
        for (int i = 0; i < last.length; i++) {
            bytes.putLong(last[i].sequence())
                    .putLong(last[i].eventMs())
                    .putDouble(last[i].temperatureC())
                    .put((byte) (last[i].hot() ? 1 : 0))
                    .putShort((short) ids[i].length)
                    .put(ids[i]);
        }
        return bytes.array();
    }

    /** Return the readings of a state; an empty array for null, the state of a new rack. */
    public static Evidence[] decode(byte[] state) {
        if (state == null) {
            return EMPTY;
        }
        ByteBuffer bytes = ByteBuffer.wrap(state);
        Evidence[] last = new Evidence[bytes.get()];
        for (int i = 0; i < last.length; i++) {
            long sequence = bytes.getLong();
            long eventMs = bytes.getLong();
            double temperatureC = bytes.getDouble();
            boolean hot = bytes.get() == 1;
            int size = bytes.getShort();
            String id = new String(state, bytes.position(), size, StandardCharsets.UTF_8);
            bytes.position(bytes.position() + size);
            last[i] = new Evidence(id, sequence, eventMs, temperatureC, hot);
        }
        return last;
    }
}
