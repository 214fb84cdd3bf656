package rackstream.streams;

import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KafkaStreams.State;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler;

import rackstream.shared.Arguments;

import sun.misc.Signal;

import java.io.IOException;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.LongAdder;

/**
 * The project's jobs as a user of Kafka Streams would write them; load tests compare the Spark jobs
 * with them.
 *
 * <pre>
 * mvn -q -B package
 * java -jar target/rackstream-kafka-streams.jar JOB --bootstrap SERVERS --prefix PREFIX
 *      --inventory FILE --state FOLDER [--threads N] [--update-interval-ms N]
 * </pre>
 *
 * <p>JOB is the Spark job's name. It reads the same topics from the earliest offset and writes the
 * same topic. State is in RocksDB and in changelog topics, so a restart with the same prefix
 * continues.
 *
 * <p>Delivery is at-least-once: after a kill, outputs may be repeated.
 *
 * <p>It writes no dead letters. It skips malformed records and prints their number at the end.
 */
public final class Main {
    private static final Duration CLOSE_TIMEOUT = Duration.ofSeconds(8);

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
        LongAdder malformed = new LongAdder();
        Topology topology = topology(arguments, malformed);
        KafkaStreams streams = new KafkaStreams(topology, settings(arguments));

        CountDownLatch end = new CountDownLatch(1);
        AtomicBoolean announced = new AtomicBoolean();
        AtomicBoolean failed = new AtomicBoolean();
        streams.setStateListener(
                (now, before) -> {
                    if (now == State.RUNNING && announced.compareAndSet(false, true)) {
                        System.out.println("running");
                        System.out.flush();
                    }
                });
        streams.setUncaughtExceptionHandler(
                error -> {
                    error.printStackTrace();
                    failed.set(true);
                    end.countDown();
                    return StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse
                            .SHUTDOWN_CLIENT;
                });
        // A signal handler, because after a shutdown hook Java would exit with 143.
        Signal.handle(new Signal("TERM"), signal -> end.countDown());
        Signal.handle(new Signal("INT"), signal -> end.countDown());

        streams.start();
        end.await();
        boolean closed = streams.close(CLOSE_TIMEOUT);
        System.err.println("malformed records: " + malformed.sum());
        System.exit(failed.get() || !closed ? 1 : 0);
    }

    private static Topology topology(Arguments arguments, LongAdder malformed) throws IOException {
        return switch (arguments.job()) {
            case "overheating" -> Overheating.topology(arguments, malformed);
            case "rack_temperature" -> RackTemperatures.topology(arguments, malformed);
            default ->
                    throw new IllegalArgumentException(
                            "no job " + arguments.job() + " in Kafka Streams");
        };
    }

    private static Properties settings(Arguments arguments) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments.bootstrap());
        // Group and changelog are named after it, so a fresh prefix starts fresh.
        settings.put(
                StreamsConfig.APPLICATION_ID_CONFIG,
                arguments.prefix() + arguments.job() + "-streams");
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments.state().toString());
        // Threads share the topic's partitions; more threads than partitions would idle.
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, arguments.threads());
        // Holds some 100,000 racks, so that most readings need no RocksDB access.
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 64L << 20);
        // Do not push metrics to the broker: the other engines do not carry that load either.
        settings.put(StreamsConfig.ENABLE_METRICS_PUSH_CONFIG, false);
        // A commit also writes merged updates. Otherwise as often as the other engines checkpoint:
        // no output waits for it; it bounds what a kill repeats.
        settings.put(
                StreamsConfig.COMMIT_INTERVAL_MS_CONFIG,
                arguments.updateIntervalMs() > 0 ? arguments.updateIntervalMs() : 10_000L);
        settings.put(
                StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        // After a kill the next start waits for the dead member's session to expire: 10 s instead
        // of 45.
        settings.put(
                StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), 10_000);
        // A poll returns what is there, so this adds no delay; a backlog is read in larger pieces.
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.MAX_POLL_RECORDS_CONFIG), 5_000);
        // A partition is paused above this: room for two polls, so that the thread never waits for
        // a fetch.
        settings.put(StreamsConfig.BUFFERED_RECORDS_PER_PARTITION_CONFIG, 10_000);
        // The broker answers as soon as it has one byte (the default), for low latency.
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.FETCH_MIN_BYTES_CONFIG), 1);
        // Send each alert at once, and gather windows for as long as the Spark job; the default of
        // Kafka Streams is 100 ms.
        settings.put(
                StreamsConfig.producerPrefix(ProducerConfig.LINGER_MS_CONFIG),
                arguments.job().equals("overheating") ? 0 : 5);
        return settings;
    }
}
