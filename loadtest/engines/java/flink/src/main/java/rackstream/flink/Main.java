package rackstream.flink;

import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.CoreOptions;
import org.apache.flink.configuration.ExecutionOptions;
import org.apache.flink.configuration.ExternalizedCheckpointRetention;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.configuration.PipelineOptions;
import org.apache.flink.configuration.RestOptions;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.configuration.SecurityOptions;
import org.apache.flink.configuration.StateBackendOptions;
import org.apache.flink.configuration.StateRecoveryOptions;
import org.apache.flink.configuration.TaskManagerOptions;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.execution.ExecutionState;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobmaster.JobResult;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.state.rocksdb.RocksDBOptions;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;

import rackstream.rule.Alert;
import rackstream.rule.Arguments;
import rackstream.rule.Inventory;
import rackstream.rule.Reading;

import sun.misc.Signal;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/**
 * The overheating rule as a user of Flink would write it; load tests compare the Spark job with it.
 *
 * <pre>
 * mvn -q -B package
 * java -jar target/overheating-flink.jar --bootstrap SERVERS --prefix PREFIX
 *      --inventory FILE --state FOLDER [--threads N]
 * </pre>
 *
 * <p>Reads PREFIX + rack-readings from the earliest offset and writes PREFIX + alerts, in a cluster
 * inside this process. The job has two tasks, each with a parallelism of --threads: source and
 * parser; rule and sink. Readings are partitioned by rack between them and keep the order of their
 * partition. State is in RocksDB, checkpoints are in the state folder; a restart continues from the
 * newest checkpoint.
 *
 * <p>Delivery is at-least-once: after a kill, alerts may be repeated with the same id.
 *
 * <p>It writes no dead letters. It skips malformed records and prints their number at the end.
 *
 * <p>Limits: it never forgets a rack (some 150 bytes each). A parallelism above the number of
 * partitions leaves sources idle.
 */
public final class Main {
    private static final long STARTUP_POLL_MS = 50;
    private static final long STOP_TIMEOUT_S = 5;

    private Main() {}

    public static void main(String[] words) throws Exception {
        Arguments arguments;
        try {
            arguments = Arguments.of(words);
        } catch (IllegalArgumentException wrong) {
            System.err.println(wrong.getMessage() + ".");
            System.exit(2);
            return;
        }
        Configuration settings = settings(arguments);
        JobGraph job = job(arguments, settings);
        CountDownLatch end = new CountDownLatch(1);
        // A signal handler, because after a shutdown hook Java would exit with 143.
        Signal.handle(new Signal("TERM"), signal -> end.countDown());
        Signal.handle(new Signal("INT"), signal -> end.countDown());

        MiniCluster cluster =
                new MiniCluster(
                        new MiniClusterConfiguration.Builder()
                                .setConfiguration(settings)
                                .setNumTaskManagers(1)
                                .setNumSlotsPerTaskManager(arguments.threads())
                                .build());
        cluster.start();
        cluster.submitJob(job).get();
        CompletableFuture<JobResult> result = cluster.requestJobResult(job.getJobID());
        result.whenComplete((done, error) -> end.countDown());
        while (end.getCount() > 0 && !allTasksRun(cluster, job.getJobID())) {
            end.await(STARTUP_POLL_MS, TimeUnit.MILLISECONDS);
        }
        if (end.getCount() > 0) {
            System.out.println("running");
            System.out.flush();
        }
        end.await();

        boolean failed = result.isDone();
        if (!failed) {
            stop(cluster, job.getJobID(), checkpoints(arguments));
        }
        report(result.get());
        cluster.close();
        System.exit(failed ? 1 : 0);
    }

    /** Stop with a savepoint, so that the state is kept; cancel when that takes too long. */
    private static void stop(MiniCluster cluster, JobID job, Path folder)
            throws InterruptedException, ExecutionException {
        try {
            cluster.stopWithSavepoint(
                            job, folder.toUri().toString(), false, SavepointFormatType.NATIVE)
                    .get(STOP_TIMEOUT_S, TimeUnit.SECONDS);
        } catch (ExecutionException | TimeoutException failure) {
            System.err.println("stopped without a savepoint: " + failure);
            cluster.cancelJob(job).get();
        }
    }

    private static void report(JobResult result) throws IOException, ClassNotFoundException {
        result.getSerializedThrowable().ifPresent(Throwable::printStackTrace);
        var malformed = result.getAccumulatorResults().get(ParseReadings.MALFORMED);
        if (malformed != null) {
            Object count = malformed.deserializeValue(Main.class.getClassLoader()).getUnchecked();
            System.err.println("malformed records: " + count);
        }
    }

    private static boolean allTasksRun(MiniCluster cluster, JobID job)
            throws InterruptedException, ExecutionException {
        var tasks = cluster.getExecutionGraph(job).get().getAllExecutionVertices();
        return StreamSupport.stream(tasks.spliterator(), false)
                .allMatch(task -> task.getExecutionState() == ExecutionState.RUNNING);
    }

    static JobGraph job(Arguments arguments, Configuration settings) throws IOException {
        KafkaSource<byte[]> readings =
                KafkaSource.<byte[]>builder()
                        .setBootstrapServers(arguments.bootstrap())
                        .setTopics(arguments.prefix() + "rack-readings")
                        .setGroupId(arguments.prefix() + "overheating-flink")
                        .setStartingOffsets(OffsetsInitializer.earliest())
                        .setDeserializer(new RawValueDeserializer())
                        // A poll returns what is there, so this adds no delay; a backlog is read in
                        // larger pieces.
                        .setProperty(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, "5000")
                        // The broker answers as soon as it has one byte (the default), for low
                        // latency.
                        .setProperty(ConsumerConfig.FETCH_MIN_BYTES_CONFIG, "1")
                        .build();
        KafkaSink<Alert> alerts =
                KafkaSink.<Alert>builder()
                        .setBootstrapServers(arguments.bootstrap())
                        .setRecordSerializer(new AlertSerializer(arguments.prefix() + "alerts"))
                        // A checkpoint waits for records in flight; no alert waits for a
                        // checkpoint.
                        .setDeliveryGuarantee(DeliveryGuarantee.AT_LEAST_ONCE)
                        // Send each alert at once.
                        .setProperty(ProducerConfig.LINGER_MS_CONFIG, "0")
                        .build();
        StreamExecutionEnvironment flink =
                StreamExecutionEnvironment.getExecutionEnvironment(settings);
        // No watermarks: the rule orders readings by the gateway's sequence.
        flink.fromSource(readings, WatermarkStrategy.noWatermarks(), "readings")
                .uid("readings")
                .flatMap(new ParseReadings())
                .uid("parsed")
                .keyBy(Reading::rackId)
                .process(new OverheatingFunction(Inventory.read(arguments.inventory())))
                .uid("rule")
                .sinkTo(alerts)
                .uid("alerts");
        return flink.getStreamGraph().getJobGraph();
    }

    private static Configuration settings(Arguments arguments) throws IOException {
        Path state = arguments.state().toAbsolutePath();
        Path checkpoints = Files.createDirectories(checkpoints(arguments));
        Path rocksDb = Files.createDirectories(state.resolve("rocksdb"));
        Configuration settings = new Configuration();
        settings.set(PipelineOptions.NAME, "overheating");
        settings.set(CoreOptions.DEFAULT_PARALLELISM, arguments.threads());
        // The functions keep no reference to their input, so chained ones need no copies.
        settings.set(PipelineOptions.OBJECT_REUSE, true);
        // Fail where a type would fall back to Kryo, which uses reflection and is slow.
        settings.set(PipelineOptions.GENERIC_TYPES, false);
        // A network buffer is flushed after at most 5 ms.
        settings.set(ExecutionOptions.BUFFER_TIMEOUT, Duration.ofMillis(5));
        settings.set(StateBackendOptions.STATE_BACKEND, "rocksdb");
        settings.set(RocksDBOptions.LOCAL_DIRECTORIES, rocksDb.toString());
        // For RocksDB's write buffers and block cache: holds the state of more than 100,000 racks.
        settings.set(TaskManagerOptions.MANAGED_MEMORY_SIZE, MemorySize.ofMebiBytes(256));
        settings.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, Duration.ofSeconds(10));
        settings.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, checkpoints.toUri().toString());
        // A checkpoint writes only the changes since the last.
        settings.set(CheckpointingOptions.INCREMENTAL_CHECKPOINTS, true);
        settings.set(
                CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION,
                ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION);
        Optional<Path> newest = newest(checkpoints);
        if (newest.isPresent()) {
            settings.set(StateRecoveryOptions.SAVEPOINT_PATH, newest.get().toUri().toString());
        }
        // Retry after a broker's restart; a lasting failure ends the process.
        settings.set(RestartStrategyOptions.RESTART_STRATEGY, "fixed-delay");
        settings.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS, 3);
        settings.set(
                RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_DELAY, Duration.ofSeconds(1));
        // Without Kerberos the cluster would log a warning.
        settings.set(SecurityOptions.DELEGATION_TOKENS_ENABLED, false);
        // Any free port, so that several processes can run side by side.
        settings.set(RestOptions.BIND_PORT, "0");
        return settings;
    }

    private static Path checkpoints(Arguments arguments) {
        return arguments.state().toAbsolutePath().resolve("checkpoints");
    }

    /** Return the newest complete checkpoint or savepoint, by the time of its metadata file. */
    private static Optional<Path> newest(Path folder) throws IOException {
        try (Stream<Path> files = Files.walk(folder)) {
            return files.filter(file -> file.endsWith("_metadata"))
                    .max(Comparator.comparing(file -> file.toFile().lastModified()))
                    .map(Path::getParent);
        }
    }
}
