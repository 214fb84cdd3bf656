package rackstream.flink;

import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.kafka.clients.producer.ProducerRecord;

import rackstream.rule.Alert;
import rackstream.rule.AlertEncoder;

import java.nio.charset.StandardCharsets;

/** Serializes an alert to a Kafka record; the producer chooses the partition by the key. */
final class AlertSerializer implements KafkaRecordSerializationSchema<Alert> {
    private final String topic;

    AlertSerializer(String topic) {
        this.topic = topic;
    }

    @Override
    public ProducerRecord<byte[], byte[]> serialize(
            Alert alert, KafkaSinkContext context, Long timestamp) {
        byte[] subject = alert.subject().getBytes(StandardCharsets.UTF_8);
        return new ProducerRecord<>(topic, subject, AlertEncoder.encode(alert));
    }
}
