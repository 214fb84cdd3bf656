"""Find the racks that are overheating: one rule, with one plan for each way to run it.

`job` declares the job, and `limits` has the options of each rack. The rule itself is in
`rules/framework/consecutive.py` for Real-time Mode, which `real_time` feeds, and in `rack_history`
for micro-batches, which `buckets` runs for many racks and `micro_batch` connects to Spark.
"""
