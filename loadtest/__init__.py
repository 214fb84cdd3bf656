"""Load experiments on this machine: latency, throughput, capacity."""
