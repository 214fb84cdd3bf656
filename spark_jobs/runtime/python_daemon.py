"""Start Spark's Python workers from a process that has loaded their packages already.

Spark forks each worker from this process. Without it, each of them loads pandas and Arrow by
itself: a second of processor time per worker, whenever a query starts or is started again.
"""

# Loaded here for the workers, which use them.
import pandas  # noqa: F401
import pyarrow.compute  # noqa: F401
import pyspark.sql.pandas.serializers
import pyspark.sql.streaming.stateful_processor_util  # noqa: F401
from pyspark import daemon

if __name__ == "__main__":
    daemon.manager()
