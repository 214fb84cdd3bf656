package rackstream;

/** What the rule needs of one record of rack-readings. */
public record Reading(
        String rackId, String siteId, String eventId, long sequence, long eventMs, double temperatureC) {}
