"""Start Spark's Python workers from a process that has loaded their packages already.

Spark forks each worker from this process. Without it, each of them loads pandas, Arrow and the
rules by itself: a second of processor time per worker, whenever a query starts or is started again.
"""

import gc

# Loaded here for the workers, which use them.
import pandas  # noqa: F401
import pyarrow.compute  # noqa: F401
import pyspark.sql.pandas.serializers
import pyspark.sql.streaming.stateful_processor_util
import pyspark.worker  # noqa: F401
from pyspark import daemon

import spark_jobs.rules.framework.bucketed_rule
import spark_jobs.runtime.job  # noqa: F401

if __name__ == "__main__":
    # PySpark collects garbage after each task. What is loaded here is never garbage, and looking
    # through it would take three quarters of a worker's processor time.
    gc.freeze()
    daemon.manager()
