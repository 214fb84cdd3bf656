package rackstream;

import java.io.IOException;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.LongAdder;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KafkaStreams.State;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.state.Stores;
import sun.misc.Signal;

/**
 * The overheating rule as a user of Kafka Streams would write it: what the Spark job is held against in load tests.
 *
 * <pre>
 * mvn -q -B package
 * java -jar target/overheating-kafka-streams.jar --bootstrap SERVERS --prefix PREFIX --inventory FILE --state FOLDER
 *      [--threads N] [--exactly-once]
 * </pre>
 *
 * <p>Reads PREFIX + rack-readings from its beginning and writes PREFIX + alerts. The topology is source, one processor
 * with one persistent store, sink: no repartitioning, as the topic's key is the rack. A rack's state lies in RocksDB
 * and in a changelog topic, as ever in Kafka Streams, so that a restart with the same prefix goes on where it was.
 *
 * <p>At least once: after a kill alerts may come twice, with the same id. With --exactly-once they do not, for readers
 * of committed records, which then wait for a commit.
 *
 * <p>What it does not do: dead letters. A record that cannot be read is skipped, and at the end their number is told.
 *
 * <p>What it gets wrong: it forgets no rack, some 150 bytes each, in the store and in its changelog.
 */
public final class Main {
    private static final Duration CLOSING = Duration.ofSeconds(8);

    private Main() {}

    public static void main(String[] words) throws IOException, InterruptedException {
        Arguments arguments;
        try {
            arguments = Arguments.of(words);
        } catch (IllegalArgumentException wrong) {
            System.err.println(wrong.getMessage() + ".");
            System.exit(2);
            return;
        }
        LongAdder unreadable = new LongAdder();
        Topology topology = topology(arguments.prefix(), Inventory.read(arguments.inventory()), unreadable);
        KafkaStreams streams = new KafkaStreams(topology, settings(arguments));

        CountDownLatch end = new CountDownLatch(1);
        AtomicBoolean told = new AtomicBoolean();
        AtomicBoolean failed = new AtomicBoolean();
        streams.setStateListener(
                (now, before) -> {
                    if (now == State.RUNNING && told.compareAndSet(false, true)) {
                        System.out.println("running");
                        System.out.flush();
                    }
                });
        streams.setUncaughtExceptionHandler(
                error -> {
                    error.printStackTrace();
                    failed.set(true);
                    end.countDown();
                    return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
                });
        // A handler, not a shutdown hook: after a hook Java exits with 143.
        Signal.handle(new Signal("TERM"), signal -> end.countDown());
        Signal.handle(new Signal("INT"), signal -> end.countDown());

        streams.start();
        end.await();
        boolean closed = streams.close(CLOSING);
        System.err.println("unreadable records: " + unreadable.sum());
        System.exit(failed.get() || !closed ? 1 : 0);
    }

    static Topology topology(String prefix, Inventory inventory, LongAdder unreadable) {
        var bytes = Serdes.ByteArray();
        // A cache above RocksDB: a rack's state is encoded into store and changelog once a commit, not once a reading.
        var racks =
                Stores.keyValueStoreBuilder(
                                Stores.persistentKeyValueStore(OverheatingProcessor.STORE), Serdes.String(), bytes)
                        .withCachingEnabled()
                        .withLoggingEnabled(Map.of());
        return new Topology()
                .addSource("readings", bytes.deserializer(), bytes.deserializer(), prefix + "rack-readings")
                .addProcessor("rule", () -> new OverheatingProcessor(inventory, unreadable), "readings")
                .addStateStore(racks, "rule")
                .addSink("alerts", prefix + "alerts", bytes.serializer(), bytes.serializer(), "rule");
    }

    private static Properties settings(Arguments arguments) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments.bootstrap());
        // Group, changelog and transactions are named after it: of a fresh prefix all of them are fresh.
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments.prefix() + "overheating-streams");
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments.state().toString());
        // Threads share the topic's partitions, so more of them than partitions would idle.
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, arguments.threads());
        // Room for some 100,000 racks, so that the usual reading needs no look into RocksDB.
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 64L << 20);
        // Nothing is sent to a broker that asks for clients' metrics: it is load that the other engines do not have.
        settings.put(StreamsConfig.ENABLE_METRICS_PUSH_CONFIG, false);
        if (arguments.exactlyOnce()) {
            // Its commit interval stays at 100 ms, since outputs are seen only once they are committed.
            settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        } else {
            // As often as the other engines checkpoint; alerts do not wait for it, only what a kill repeats grows.
            settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 10_000L);
        }
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        // After a kill the next start waits until the broker gives up the dead one: 10 s, and not the default 45.
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), 10_000);
        // A poll hands over what it has, so this delays nothing; with a backlog it spares the loop most of its rounds.
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.MAX_POLL_RECORDS_CONFIG), 5_000);
        // Below this a partition is asked for more: two polls, so that the thread never waits for the fetch.
        settings.put(StreamsConfig.BUFFERED_RECORDS_PER_PARTITION_CONFIG, 10_000);
        // The broker answers as soon as it has one byte, which is the default, and what low latency needs.
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.FETCH_MIN_BYTES_CONFIG), 1);
        // Alerts are few and urgent; Kafka Streams would take 100 ms.
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.LINGER_MS_CONFIG), 0);
        return settings;
    }
}
