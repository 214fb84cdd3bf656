package rackstream.shared;

/** Key and value of an output record. */
public record Message(byte[] key, byte[] value) {}
