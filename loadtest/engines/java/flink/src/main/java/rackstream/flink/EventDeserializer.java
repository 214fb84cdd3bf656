package rackstream.flink;

import org.apache.flink.api.common.serialization.DeserializationSchema;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.metrics.Counter;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;

import rackstream.shared.Event;

import java.io.Serializable;

/**
 * Parses records to events in the source, so that it knows their times. Skips malformed ones, and
 * those too far ahead where the job is by event time; a metric counts both.
 */
final class EventDeserializer<T extends Event> implements KafkaRecordDeserializationSchema<T> {
    private final Parser<T> parser;
    private final Class<T> type;
    private final boolean byEventTime;
    private transient Counter skipped;

    /** Returns the event of a value, or null when it violates the contract. */
    interface Parser<T> extends Serializable {
        T parse(byte[] value);
    }

    EventDeserializer(Parser<T> parser, Class<T> type, boolean byEventTime) {
        this.parser = parser;
        this.type = type;
        this.byEventTime = byEventTime;
    }

    @Override
    public void open(DeserializationSchema.InitializationContext context) {
        skipped = context.getMetricGroup().counter("skipped");
    }

    @Override
    public void deserialize(ConsumerRecord<byte[], byte[]> message, Collector<T> events) {
        T event = parser.parse(message.value());
        if (event == null || byEventTime && event.isFuture(message.timestamp())) {
            skipped.inc();
        } else {
            events.collect(event);
        }
    }

    @Override
    public TypeInformation<T> getProducedType() {
        return TypeInformation.of(type);
    }
}
