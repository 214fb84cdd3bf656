"""Load experiments: how fast, how late, how far; on this machine's loopback only, bounded, ending by themselves."""
