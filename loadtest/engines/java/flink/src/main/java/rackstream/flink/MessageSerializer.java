package rackstream.flink;

import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.kafka.clients.producer.ProducerRecord;

import rackstream.shared.Message;

/** Serializes an output to a Kafka record; the producer chooses the partition by the key. */
final class MessageSerializer implements KafkaRecordSerializationSchema<Message> {
    private final String topic;

    MessageSerializer(String topic) {
        this.topic = topic;
    }

    @Override
    public ProducerRecord<byte[], byte[]> serialize(
            Message message, KafkaSinkContext context, Long timestamp) {
        return new ProducerRecord<>(topic, message.key(), message.value());
    }
}
