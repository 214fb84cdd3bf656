"""Refuse a new checkpoint over files of another one, where only Spark can look: behind a URL."""

from pyspark.sql import SparkSession

from spark_jobs.runtime.checkpoints import FILE_SINK_LOG, in_object_store, written_with_another
from spark_jobs.runtime.hadoop import file_system


def check_output_folder(spark: SparkSession, checkpoint: str, output_folder: str) -> None:
    """Raise `UserFacingError` if a new checkpoint's output folder has another one's files.

    `checkpoints.check_checkpoint` has looked already where both are paths of this machine.
    """
    if not (in_object_store(checkpoint) or in_object_store(output_folder)):
        return
    if _exists(spark, f"{output_folder}/{FILE_SINK_LOG}") and not _exists(
        spark, f"{checkpoint}/offsets"
    ):
        raise written_with_another(output_folder, checkpoint)


def _exists(spark: SparkSession, location: str) -> bool:
    files, path = file_system(spark, location)
    return bool(files.exists(path))
