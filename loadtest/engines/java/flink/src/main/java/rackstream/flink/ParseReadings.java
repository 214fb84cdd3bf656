package rackstream.flink;

import org.apache.flink.api.common.accumulators.LongCounter;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichFlatMapFunction;
import org.apache.flink.util.Collector;

import rackstream.rule.Reading;
import rackstream.rule.ReadingParser;

/** Parses values to readings; counts and skips malformed ones. */
final class ParseReadings extends RichFlatMapFunction<byte[], Reading> {
    static final String MALFORMED = "malformed";

    private final LongCounter malformed = new LongCounter();

    @Override
    public void open(OpenContext context) {
        getRuntimeContext().addAccumulator(MALFORMED, malformed);
    }

    @Override
    public void flatMap(byte[] value, Collector<Reading> readings) {
        Reading reading = ReadingParser.parse(value);
        if (reading == null) {
            malformed.add(1);
        } else {
            readings.collect(reading);
        }
    }
}
