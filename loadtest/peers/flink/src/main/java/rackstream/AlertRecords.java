package rackstream;

import java.nio.charset.StandardCharsets;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.kafka.clients.producer.ProducerRecord;

/** From an alert to its record in Kafka; the partition is left to the producer, which goes by the key. */
final class AlertRecords implements KafkaRecordSerializationSchema<Alert> {
    private final String topic;

    AlertRecords(String topic) {
        this.topic = topic;
    }

    @Override
    public ProducerRecord<byte[], byte[]> serialize(Alert alert, KafkaSinkContext context, Long timestamp) {
        byte[] subject = alert.subject().getBytes(StandardCharsets.UTF_8);
        return new ProducerRecord<>(topic, subject, AlertWriter.write(alert));
    }
}
