package rackstream;

import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** A record's value as it is. A record without one is as unreadable as an empty one, and has to be counted too. */
final class ValueBytes implements KafkaRecordDeserializationSchema<byte[]> {
    private static final byte[] EMPTY = {};

    @Override
    public void deserialize(ConsumerRecord<byte[], byte[]> message, Collector<byte[]> values) {
        values.collect(message.value() == null ? EMPTY : message.value());
    }

    @Override
    public TypeInformation<byte[]> getProducedType() {
        return PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO;
    }
}
