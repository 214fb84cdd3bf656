package rackstream.rule;

/** The fields of a rack-readings record that the rule needs. */
public record Reading(
        String rackId,
        String siteId,
        String eventId,
        long sequence,
        long eventMs,
        double temperatureC) {}
