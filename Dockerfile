# The one image of the application: topic-init, producer, jobs and alerting differ in their command alone.
FROM python:3.11-slim-bookworm AS base
# Spark runs on Java; Debian has it for amd64 and arm64.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/*
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

# The locked packages. PySpark is published as source: it is built here, and only the result is kept.
FROM base AS packages
COPY requirements.lock /
RUN python -m venv /opt/venv \
 && pip install --no-cache-dir --disable-pip-version-check --require-hashes -r /requirements.lock \
 && cd /opt/venv/lib/python3.11/site-packages \
 # The interactive Connect shell, examples, headers and the packages' own tests: 110 MB that nothing here uses.
 && rm -rf pyspark/jars/connect-repl pyspark/examples pyarrow/include pyarrow/tests pandas/tests numpy/*/tests pip pip-*

# Spark's connector to Kafka. It needs few of our files, so that a change of code does not fetch it again.
FROM packages AS connector
WORKDIR /src
COPY jars jars
COPY events/__init__.py events/cli.py events/records.py events/settings.py events/topics.py events/
RUN RACKSTREAM_JARS=/opt/rackstream/jars python -m jars fetch \
 && rm -rf /opt/rackstream/jars/broker /opt/rackstream/jars/.ivy

FROM base
# Hadoop's login wants a user with a name. The folders exist so that volumes mounted there belong to that user.
RUN useradd --uid 10001 --home-dir /tmp --no-create-home --shell /usr/sbin/nologin rackstream \
 && install --directory --owner=rackstream --group=rackstream \
      /var/lib/rackstream/alerting /var/lib/rackstream/checkpoints /var/lib/rackstream/world
COPY --from=packages /opt/venv /opt/venv
COPY --from=connector /opt/rackstream/jars /opt/rackstream/jars
COPY alerting /opt/rackstream/app/alerting
COPY broker /opt/rackstream/app/broker
COPY events /opt/rackstream/app/events
COPY jars /opt/rackstream/app/jars
COPY producer /opt/rackstream/app/producer
COPY spark_jobs /opt/rackstream/app/spark_jobs
WORKDIR /opt/rackstream/app
ENV RACKSTREAM_HOME=/tmp/rackstream \
    RACKSTREAM_JARS=/opt/rackstream/jars \
    SPARK_LOCAL_DIRS=/tmp
USER rackstream
ENTRYPOINT ["python", "-m"]
CMD ["spark_jobs", "list"]
