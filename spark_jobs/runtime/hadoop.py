"""Find files through Hadoop, as Spark does: paths of this machine and URLs alike."""

from typing import Any

from pyspark.sql import SparkSession


def file_system(spark: SparkSession, location: str) -> tuple[Any, Any]:
    """Return the Java objects of a location's file system, and of its path there."""
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(location)
    return path.getFileSystem(spark._jsc.hadoopConfiguration()), path
