package rackstream.flink;

import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;

import rackstream.shared.Arguments;
import rackstream.shared.Event;
import rackstream.shared.Message;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;

/** Sources and sinks, with the settings that all jobs share. */
final class KafkaIo {
    /** A partition without records for so long no longer holds back the watermark. */
    private static final Duration IDLE = Duration.ofSeconds(10);

    private KafkaIo() {}

    /** Return a topic's events from the earliest offset, without watermarks. */
    static <T extends Event> SingleOutputStreamOperator<T> read(
            StreamExecutionEnvironment flink,
            Arguments arguments,
            String topic,
            EventDeserializer.Parser<T> parser,
            Class<T> type) {
        return read(
                flink,
                arguments,
                topic,
                new EventDeserializer<>(parser, type, false),
                WatermarkStrategy.noWatermarks());
    }

    /**
     * Return a topic's events from the earliest offset, with the watermark of the partition that is
     * furthest behind; events may be late by this delay.
     */
    static <T extends Event> SingleOutputStreamOperator<T> read(
            StreamExecutionEnvironment flink,
            Arguments arguments,
            String topic,
            EventDeserializer.Parser<T> parser,
            Class<T> type,
            long delayMs) {
        return read(
                flink,
                arguments,
                topic,
                new EventDeserializer<>(parser, type, true),
                WatermarkStrategy.<T>forBoundedOutOfOrderness(Duration.ofMillis(delayMs))
                        .withTimestampAssigner((event, appended) -> event.eventMs())
                        .withIdleness(IDLE));
    }

    private static <T extends Event> SingleOutputStreamOperator<T> read(
            StreamExecutionEnvironment flink,
            Arguments arguments,
            String topic,
            EventDeserializer<T> deserializer,
            WatermarkStrategy<T> watermarks) {
        KafkaSource<T> source =
                KafkaSource.<T>builder()
                        .setBootstrapServers(arguments.bootstrap())
                        .setTopics(arguments.prefix() + topic)
                        .setGroupId(arguments.prefix() + arguments.job() + "-flink")
                        .setStartingOffsets(OffsetsInitializer.earliest())
                        .setDeserializer(deserializer)
                        // A poll returns what is there, so this adds no delay; a backlog is read in
                        // larger pieces.
                        .setProperty(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, "5000")
                        // The broker answers as soon as it has one byte (the default), for low
                        // latency.
                        .setProperty(ConsumerConfig.FETCH_MIN_BYTES_CONFIG, "1")
                        .build();
        return flink.fromSource(source, watermarks, topic).uid(topic);
    }

    /** Return how many partitions a topic has. */
    static int partitions(Arguments arguments, String topic)
            throws ExecutionException, InterruptedException {
        String name = arguments.prefix() + topic;
        Map<String, Object> settings =
                Map.of(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, arguments.bootstrap());
        try (Admin admin = Admin.create(settings)) {
            var topics = admin.describeTopics(List.of(name)).allTopicNames().get();
            return topics.get(name).partitions().size();
        }
    }

    /** Write messages to a topic; the producer waits this long for more of them. */
    static void write(
            DataStream<Message> messages, Arguments arguments, String topic, int lingerMs) {
        KafkaSink<Message> sink =
                KafkaSink.<Message>builder()
                        .setBootstrapServers(arguments.bootstrap())
                        .setRecordSerializer(new MessageSerializer(arguments.prefix() + topic))
                        // A checkpoint waits for records in flight; no output waits for a
                        // checkpoint.
                        .setDeliveryGuarantee(DeliveryGuarantee.AT_LEAST_ONCE)
                        .setProperty(ProducerConfig.LINGER_MS_CONFIG, Integer.toString(lingerMs))
                        .build();
        messages.sinkTo(sink).uid(topic);
    }
}
