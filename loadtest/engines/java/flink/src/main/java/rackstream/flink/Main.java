package rackstream.flink;

import org.apache.flink.api.common.JobID;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.execution.ExecutionState;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobmaster.JobResult;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

import rackstream.shared.Arguments;

import sun.misc.Signal;

import java.io.IOException;
import java.nio.file.Path;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.StreamSupport;

/**
 * The project's jobs as a user of Flink would write them; load tests compare the Spark jobs with
 * them.
 *
 * <pre>
 * mvn -q -B package
 * java -jar target/rackstream-flink.jar JOB --bootstrap SERVERS --prefix PREFIX
 *      --inventory FILE --state FOLDER [--threads N] [--update-interval-ms N]
 * </pre>
 *
 * <p>JOB is the Spark job's name. It reads the same topics from the earliest offset and writes the
 * same topic, in a cluster inside this process. Its tasks have a parallelism of --threads.
 * State is in RocksDB, checkpoints are in the state folder; a restart continues from the newest
 * checkpoint.
 *
 * <p>Delivery is at-least-once: after a kill, outputs may be repeated.
 *
 * <p>It writes no dead letters. It skips malformed records.
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
        Configuration settings = Settings.of(arguments);
        JobGraph job = job(arguments, settings);
        int slots = job.getMaximumParallelism();
        Settings.setMemory(settings, slots);
        CountDownLatch end = new CountDownLatch(1);
        // A signal handler, because after a shutdown hook Java would exit with 143.
        Signal.handle(new Signal("TERM"), signal -> end.countDown());
        Signal.handle(new Signal("INT"), signal -> end.countDown());

        MiniCluster cluster =
                new MiniCluster(
                        new MiniClusterConfiguration.Builder()
                                .setConfiguration(settings)
                                .setNumTaskManagers(1)
                                .setNumSlotsPerTaskManager(slots)
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
            stop(cluster, job.getJobID(), Settings.checkpoints(arguments));
        }
        result.get().getSerializedThrowable().ifPresent(Throwable::printStackTrace);
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

    private static boolean allTasksRun(MiniCluster cluster, JobID job)
            throws InterruptedException, ExecutionException {
        var tasks = cluster.getExecutionGraph(job).get().getAllExecutionVertices();
        return StreamSupport.stream(tasks.spliterator(), false)
                .allMatch(task -> task.getExecutionState() == ExecutionState.RUNNING);
    }

    static JobGraph job(Arguments arguments, Configuration settings)
            throws IOException, ExecutionException, InterruptedException {
        StreamExecutionEnvironment flink =
                StreamExecutionEnvironment.getExecutionEnvironment(settings);
        switch (arguments.job()) {
            case "overheating" -> Overheating.build(flink, arguments);
            case "ad_attribution" -> AdAttributions.build(flink, arguments);
            case "rack_temperature" -> RackTemperatures.build(flink, arguments);
            default ->
                    throw new IllegalArgumentException(
                            "no job " + arguments.job() + " in Flink");
        }
        return flink.getStreamGraph().getJobGraph();
    }
}
