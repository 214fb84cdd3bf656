# The one application image. Topic-init, producers, jobs, alerting, the dashboard, the verdict, and
# Spark's master and workers differ only in their command. 1.26 GB: Spark's jars are 0.38, Java is
# 0.2, the CDS archive 0.18, Arrow 0.16.
FROM python:3.11-slim-bookworm AS base
# Spark runs on Java; Debian has it for amd64 and arm64.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

# The locked packages. PySpark is published as source; only the result of its build is kept.
FROM base AS packages
COPY requirements.lock /
RUN python -m venv /opt/venv \
 && pip install --no-cache-dir --disable-pip-version-check --require-hashes -r /requirements.lock \
 && cd /opt/venv/lib/python3.11/site-packages \
 # Unused here, 190 MB: Connect, Hive, machine learning, examples, headers and the packages' tests.
 && cd pyspark/jars \
 && rm -rf connect-repl spark-connect_* spark-mllib_* spark-graphx_* breeze_* spire_* cats-* \
      algebra_* arpack* lapack* blas-* JTransforms-* hive-exec-* hive-metastore-* hive-serde-* \
      hive-service-rpc-* hive-cli-* hive-beeline-* hive-jdbc-* spark-hive* datanucleus-* derby-* \
 && cd ../.. \
 && rm -rf pyspark/examples pyarrow/include pyarrow/tests pandas/tests numpy/*/tests \
      pip pip-* setuptools setuptools-* pkg_resources \
 # Alone of all packages, PySpark comes without compiled modules.
 && python -m compileall -q pyspark

# Spark's Kafka connector. This stage copies few files, so that it is rebuilt rarely.
FROM packages AS connector
WORKDIR /src
COPY jars jars
COPY events/__init__.py events/catalog.py events/cli.py events/records.py events/settings.py \
     events/start.py events/topics.py events/
RUN RACKSTREAM_JARS=/opt/rackstream/jars python -m jars fetch spark

# Spark's classes as the JVM maps them into memory, shared by all containers: a start takes half the
# processor time (docs/cold-start.md). A change of a job does not make it again.
FROM packages AS classes
COPY --from=connector /opt/rackstream/jars /opt/rackstream/jars
WORKDIR /src
COPY jars jars
COPY events events
COPY spark_jobs/__init__.py spark_jobs/
COPY spark_jobs/runtime spark_jobs/runtime
RUN RACKSTREAM_JARS=/opt/rackstream/jars python -m spark_jobs.runtime.cds_archive \
 && ls /opt/rackstream/jars/spark-classes-*.jsa

FROM base
# Hadoop's login needs a named user. Volumes mounted on these folders belong to that user.
RUN useradd --uid 10001 --home-dir /tmp --no-create-home --shell /usr/sbin/nologin rackstream \
 && install --directory --owner=rackstream --group=rackstream \
      /var/lib/rackstream/alerting /var/lib/rackstream/archive /var/lib/rackstream/checkpoints \
      /var/lib/rackstream/ledger /var/lib/rackstream/load /var/lib/rackstream/spark-master \
      /var/lib/rackstream/status /var/lib/rackstream/world
COPY --from=packages /opt/venv /opt/venv
COPY --from=classes /opt/rackstream/jars /opt/rackstream/jars
COPY alerting /opt/rackstream/app/alerting
COPY broker /opt/rackstream/app/broker
COPY dashboard /opt/rackstream/app/dashboard
COPY demo /opt/rackstream/app/demo
COPY events /opt/rackstream/app/events
COPY jars /opt/rackstream/app/jars
COPY producer /opt/rackstream/app/producer
COPY spark_jobs /opt/rackstream/app/spark_jobs
COPY submit.py /opt/rackstream/app/submit.py
COPY deploy/spark /opt/rackstream/spark
WORKDIR /opt/rackstream/app
# Nobody may write here later. A health check takes 0.2 s instead of 0.5 s of processor time.
RUN python -m compileall -q .
# Spark's Python workers find the jobs' functions by this path.
ENV PYTHONPATH=/opt/rackstream/app \
    RACKSTREAM_HOME=/tmp/rackstream \
    RACKSTREAM_JARS=/opt/rackstream/jars \
    SPARK_LOCAL_DIRS=/tmp
USER rackstream
ENTRYPOINT ["python", "-m"]
CMD ["spark_jobs", "list"]
