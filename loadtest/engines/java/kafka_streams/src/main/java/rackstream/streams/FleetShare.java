package rackstream.streams;

import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

import rackstream.shared.Panes;
import rackstream.shared.RackTemperature;
import rackstream.shared.Temperatures;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/** What one partition contributes to a window of the fleet; a later share replaces the earlier. */
record FleetShare(int partition, Temperatures temperatures) {
    private static final String STORE = "fleet-panes";
    private static final int BYTES = Integer.BYTES + Temperatures.BYTES;

    static final Serde<FleetShare> SERDE =
            Serdes.serdeFrom(
                    (topic, share) -> {
                        ByteBuffer bytes = ByteBuffer.allocate(BYTES);
                        share.put(bytes);
                        return bytes.array();
                    },
                    (topic, bytes) -> get(ByteBuffer.wrap(bytes)));
    static final Serde<Shares> SHARES_SERDE =
            Serdes.serdeFrom(
                    (topic, shares) -> shares.encode(), (topic, bytes) -> Shares.decode(bytes));

    private void put(ByteBuffer bytes) {
        temperatures.put(bytes.putInt(partition));
    }

    private static FleetShare get(ByteBuffer bytes) {
        return new FleetShare(bytes.getInt(), Temperatures.get(bytes));
    }

    /** The newest share of each partition in one window. */
    static final class Shares {
        private final TreeMap<Integer, Temperatures> byPartition = new TreeMap<>();

        Shares with(FleetShare share) {
            byPartition.put(share.partition, share.temperatures);
            return this;
        }

        Temperatures all() {
            return byPartition.values().stream().reduce(Temperatures.NONE, Temperatures::plus);
        }

        private byte[] encode() {
            ByteBuffer bytes = ByteBuffer.allocate(byPartition.size() * BYTES);
            byPartition.forEach((partition, all) -> new FleetShare(partition, all).put(bytes));
            return bytes.array();
        }

        private static Shares decode(byte[] state) {
            if (state == null) {
                return null;
            }
            Shares shares = new Shares();
            ByteBuffer bytes = ByteBuffer.wrap(state);
            while (bytes.hasRemaining()) {
                shares.with(get(bytes));
            }
            return shares;
        }
    }

    /** Return the processor of one partition's windows, by their start. */
    static ProcessorSupplier<String, Temperatures, Long, FleetShare> supplier(
            long updateIntervalMs) {
        return new ProcessorSupplier<>() {
            @Override
            public Set<StoreBuilder<?>> stores() {
                // With the cache, state goes to RocksDB and the changelog once per commit.
                return Set.of(
                        Stores.keyValueStoreBuilder(
                                        Stores.persistentKeyValueStore(STORE),
                                        Serdes.String(),
                                        Serdes.ByteArray())
                                .withCachingEnabled()
                                .withLoggingEnabled(Map.of()));
            }

            @Override
            public Windows get() {
                return new Windows(updateIntervalMs);
            }
        };
    }

    /** Forwards a window's share when it changes, or all changed ones after each interval. */
    private static final class Windows
            extends ContextualProcessor<String, Temperatures, Long, FleetShare> {
        private final long updateIntervalMs;
        private final Set<Long> changed = new HashSet<>();
        private KeyValueStore<String, byte[]> store;
        private Panes panes;
        private long streamMs;

        Windows(long updateIntervalMs) {
            this.updateIntervalMs = updateIntervalMs;
        }

        @Override
        public void init(ProcessorContext<Long, FleetShare> context) {
            super.init(context);
            store = context.getStateStore(STORE);
            panes = Panes.decode(store.get(RackTemperature.FLEET));
            // What had changed before a restart may not have been forwarded.
            panes.starts().forEach(this::change);
            if (updateIntervalMs > 0) {
                context.schedule(
                        Duration.ofMillis(updateIntervalMs),
                        PunctuationType.WALL_CLOCK_TIME,
                        now -> forwardChanged());
            }
        }

        @Override
        public void process(Record<String, Temperatures> measured) {
            streamMs = Math.max(streamMs, measured.timestamp());
            long paneMs = Panes.startMs(measured.timestamp());
            if (Panes.isClosed(paneMs, watermark())) {
                return;
            }
            panes.add(paneMs, measured.value());
            store.put(RackTemperature.FLEET, panes.encode());
            change(paneMs);
            if (updateIntervalMs == 0) {
                forwardChanged();
            }
        }

        /** Return the time up to which the windows of the DSL, too, are closed. */
        private long watermark() {
            return streamMs - RackTemperature.WATERMARK_MS - 1;
        }

        private void change(long paneMs) {
            for (long startMs = paneMs;
                    startMs > paneMs - RackTemperature.WINDOW_MS;
                    startMs -= RackTemperature.SLIDE_MS) {
                if (!Panes.isClosed(startMs, watermark())) {
                    changed.add(startMs);
                }
            }
        }

        private void forwardChanged() {
            for (long startMs : changed) {
                FleetShare share =
                        new FleetShare(
                                context().taskId().partition(), panes.inWindow(startMs));
                context().forward(new Record<>(startMs, share, Math.max(0, startMs)));
            }
            changed.clear();
            panes.removeClosed(watermark());
        }
    }
}
