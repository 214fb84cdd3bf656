package rackstream.flink;

import rackstream.shared.Temperatures;

/** Some temperatures of one scope in the pane that starts at this time. */
public record ScopedTemperatures(
        String scope, long paneMs, long count, double sum, double min, double max) {

    static ScopedTemperatures of(String scope, long paneMs, Temperatures temperatures) {
        return new ScopedTemperatures(
                scope,
                paneMs,
                temperatures.count(),
                temperatures.sum(),
                temperatures.min(),
                temperatures.max());
    }

    Temperatures temperatures() {
        return new Temperatures(count, sum, min, max);
    }
}
