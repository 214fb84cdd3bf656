package rackstream;

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
import sun.misc.Signal;

/**
 * The overheating rule as a user of Flink would write it: what the Spark job is held against in load tests.
 *
 * <pre>
 * mvn -q -B package
 * java -jar target/overheating-flink.jar --bootstrap SERVERS --prefix PREFIX --inventory FILE --state FOLDER
 *      [--parallelism N]
 * </pre>
 *
 * <p>Reads PREFIX + rack-readings from its beginning and writes PREFIX + alerts, in a cluster within this process. Two
 * tasks, each as often as the parallelism says: source and parser; rule and sink. Between them readings go to the task
 * that has their rack, in the order of their partition. State lies in RocksDB, checkpoints in the state folder; a start
 * that finds some there goes on from the newest.
 *
 * <p>At least once: after a kill alerts may come twice, with the same id.
 *
 * <p>What it does not do: dead letters. A record that cannot be read is skipped, and at the end their number is told.
 *
 * <p>What it gets wrong: it forgets no rack, some 150 bytes each. A parallelism above the number of partitions leaves
 * sources idle.
 */
public final class Main {
    private static final long STARTING_POLL_MS = 50;
    private static final long STOPPING_S = 5;

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
        // A handler, not a shutdown hook: after a hook Java exits with 143.
        Signal.handle(new Signal("TERM"), signal -> end.countDown());
        Signal.handle(new Signal("INT"), signal -> end.countDown());

        MiniCluster cluster =
                new MiniCluster(
                        new MiniClusterConfiguration.Builder()
                                .setConfiguration(settings)
                                .setNumTaskManagers(1)
                                .setNumSlotsPerTaskManager(arguments.parallelism())
                                .build());
        cluster.start();
        cluster.submitJob(job).get();
        CompletableFuture<JobResult> result = cluster.requestJobResult(job.getJobID());
        result.whenComplete((done, error) -> end.countDown());
        while (end.getCount() > 0 && !allTasksRun(cluster, job.getJobID())) {
            end.await(STARTING_POLL_MS, TimeUnit.MILLISECONDS);
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

    /** Let what was read be written, and keep the state; where that is not to be had in time, end nevertheless. */
    private static void stop(MiniCluster cluster, JobID job, Path folder)
            throws InterruptedException, ExecutionException {
        try {
            cluster.stopWithSavepoint(job, folder.toUri().toString(), false, SavepointFormatType.NATIVE)
                    .get(STOPPING_S, TimeUnit.SECONDS);
        } catch (ExecutionException | TimeoutException tooLong) {
            System.err.println("stopped without a savepoint: " + tooLong);
            cluster.cancelJob(job).get();
        }
    }

    private static void report(JobResult result) throws IOException, ClassNotFoundException {
        result.getSerializedThrowable().ifPresent(Throwable::printStackTrace);
        var unreadable = result.getAccumulatorResults().get(ParseReadings.UNREADABLE);
        if (unreadable != null) {
            Object count = unreadable.deserializeValue(Main.class.getClassLoader()).getUnchecked();
            System.err.println("unreadable records: " + count);
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
                        .setDeserializer(new ValueBytes())
                        // A poll hands over what it has, so this delays nothing; a backlog goes on in larger pieces.
                        .setProperty(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, "5000")
                        // The broker answers as soon as it has one byte: the default, and what low latency needs.
                        .setProperty(ConsumerConfig.FETCH_MIN_BYTES_CONFIG, "1")
                        .build();
        KafkaSink<Alert> alerts =
                KafkaSink.<Alert>builder()
                        .setBootstrapServers(arguments.bootstrap())
                        .setRecordSerializer(new AlertRecords(arguments.prefix() + "alerts"))
                        // Checkpoints wait for what is on its way to the broker; no alert waits for a checkpoint.
                        .setDeliveryGuarantee(DeliveryGuarantee.AT_LEAST_ONCE)
                        // Alerts are few and urgent.
                        .setProperty(ProducerConfig.LINGER_MS_CONFIG, "0")
                        .build();
        StreamExecutionEnvironment flink = StreamExecutionEnvironment.getExecutionEnvironment(settings);
        // No watermarks: the rule goes by the gateway's sequence, never by time.
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
        settings.set(CoreOptions.DEFAULT_PARALLELISM, arguments.parallelism());
        // Functions here keep nothing of what they are handed, so copies between chained ones are in vain.
        settings.set(PipelineOptions.OBJECT_REUSE, true);
        // An error where a type would fall back to reflection by Kryo, which is slow.
        settings.set(PipelineOptions.GENERIC_TYPES, false);
        // A reading waits at most 5 ms for its buffer to fill, as an alert does for its request.
        settings.set(ExecutionOptions.BUFFER_TIMEOUT, Duration.ofMillis(5));
        settings.set(StateBackendOptions.STATE_BACKEND, "rocksdb");
        settings.set(RocksDBOptions.LOCAL_DIRECTORIES, rocksDb.toString());
        // RocksDB's write buffers and block cache: more than 100,000 racks' state.
        settings.set(TaskManagerOptions.MANAGED_MEMORY_SIZE, MemorySize.ofMebiBytes(256));
        settings.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, Duration.ofSeconds(10));
        settings.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, checkpoints.toUri().toString());
        // A checkpoint writes only what changed since the last.
        settings.set(CheckpointingOptions.INCREMENTAL_CHECKPOINTS, true);
        settings.set(
                CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION,
                ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION);
        Optional<Path> newest = newest(checkpoints);
        if (newest.isPresent()) {
            settings.set(StateRecoveryOptions.SAVEPOINT_PATH, newest.get().toUri().toString());
        }
        // What a broker's restart breaks is tried again, what stays broken ends the process.
        settings.set(RestartStrategyOptions.RESTART_STRATEGY, "fixed-delay");
        settings.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS, 3);
        settings.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_DELAY, Duration.ofSeconds(1));
        // There is no Kerberos here, of which the cluster would warn.
        settings.set(SecurityOptions.DELEGATION_TOKENS_ENABLED, false);
        // Any free port: several of these run side by side.
        settings.set(RestOptions.BIND_PORT, "0");
        return settings;
    }

    private static Path checkpoints(Arguments arguments) {
        return arguments.state().toAbsolutePath().resolve("checkpoints");
    }

    /** Return the newest complete checkpoint or savepoint: the one whose metadata was written last. */
    private static Optional<Path> newest(Path folder) throws IOException {
        try (Stream<Path> files = Files.walk(folder)) {
            return files.filter(file -> file.endsWith("_metadata"))
                    .max(Comparator.comparing(file -> file.toFile().lastModified()))
                    .map(Path::getParent);
        }
    }
}
