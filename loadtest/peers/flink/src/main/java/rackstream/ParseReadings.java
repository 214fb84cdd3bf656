package rackstream;

import org.apache.flink.api.common.accumulators.LongCounter;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichFlatMapFunction;
import org.apache.flink.util.Collector;

/** From values to readings; those that cannot be read are counted and left out. */
final class ParseReadings extends RichFlatMapFunction<byte[], Reading> {
    static final String UNREADABLE = "unreadable";

    private final LongCounter unreadable = new LongCounter();

    @Override
    public void open(OpenContext context) {
        getRuntimeContext().addAccumulator(UNREADABLE, unreadable);
    }

    @Override
    public void flatMap(byte[] value, Collector<Reading> readings) {
        Reading reading = ReadingReader.read(value);
        if (reading == null) {
            unreadable.add(1);
        } else {
            readings.collect(reading);
        }
    }
}
