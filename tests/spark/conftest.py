"""Start a local Spark session for all tests of a run, set up as the jobs set up theirs."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from events.settings import Settings
from jars.java import QUICK_JAVA
from spark_jobs.runtime import cds_archive
from spark_jobs.runtime.session import new_session
from spark_jobs.runtime.small_data import INTERPRETED


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Run one session; small, since its tables are."""
    settings = Settings(
        rackstream_jars=Settings().jars_dir, rackstream_home=tmp_path_factory.mktemp("spark")
    )
    java_options = f"{cds_archive.java_options(settings)} {QUICK_JAVA}"
    session = new_session(settings, 2, 2, INTERPRETED, java_options)
    try:
        yield session
    finally:
        session.stop()


@pytest.fixture
def many_groups(spark: SparkSession) -> Iterator[None]:
    """Keep the aggregate of every group in memory: sorting would lose the order of arrival."""
    name = "spark.sql.objectHashAggregate.sortBased.fallbackThreshold"
    spark.conf.set(name, "10000000")
    yield
    spark.conf.unset(name)


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    return tmp_path
