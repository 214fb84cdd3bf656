package rackstream.flink;

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
import org.apache.flink.state.rocksdb.RocksDBConfigurableOptions;
import org.apache.flink.state.rocksdb.RocksDBOptions;

import rackstream.shared.Arguments;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.Optional;
import java.util.stream.Stream;

/** The settings of the cluster, which all jobs share. */
final class Settings {
    private static final MemorySize SLOT_MEMORY = MemorySize.ofMebiBytes(512);

    private Settings() {}

    /**
     * Give each slot memory for RocksDB's write buffers and block cache: two slots hold the state
     * of more than 100,000 racks. With a quarter of it the join of 20,000 events/s uses more than
     * twice the CPU, and falls behind.
     */
    static void setMemory(Configuration settings, int slots) {
        settings.set(TaskManagerOptions.MANAGED_MEMORY_SIZE, SLOT_MEMORY.multiply(slots));
    }

    static Configuration of(Arguments arguments) throws IOException {
        Path state = arguments.state().toAbsolutePath();
        Path checkpoints = Files.createDirectories(checkpoints(arguments));
        Path rocksDb = Files.createDirectories(state.resolve("rocksdb"));
        Configuration settings = new Configuration();
        settings.set(PipelineOptions.NAME, arguments.job());
        settings.set(CoreOptions.DEFAULT_PARALLELISM, arguments.threads());
        // The functions keep no reference to their input, so chained ones need no copies.
        settings.set(PipelineOptions.OBJECT_REUSE, true);
        // Fail where a type would fall back to Kryo, which uses reflection and is slow.
        settings.set(PipelineOptions.GENERIC_TYPES, false);
        // A network buffer is flushed after at most 5 ms.
        settings.set(ExecutionOptions.BUFFER_TIMEOUT, Duration.ofMillis(5));
        settings.set(StateBackendOptions.STATE_BACKEND, "rocksdb");
        settings.set(RocksDBOptions.LOCAL_DIRECTORIES, rocksDb.toString());
        // Of most new keys there is no state, which a filter tells without reading files.
        settings.set(RocksDBConfigurableOptions.USE_BLOOM_FILTER, true);
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

    static Path checkpoints(Arguments arguments) {
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
