"""Run load experiments on this machine: latency, throughput, capacity."""
