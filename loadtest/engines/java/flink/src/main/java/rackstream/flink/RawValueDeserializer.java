package rackstream.flink;

import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/**
 * Passes a record's value on unparsed; a missing value becomes an empty one, which is counted as
 * malformed.
 */
final class RawValueDeserializer implements KafkaRecordDeserializationSchema<byte[]> {
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
