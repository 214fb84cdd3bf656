#!/bin/bash
# Run the Spark master; after a crash it goes on with the workers and applications that it had.
# Without their records it would end every executor, and the drivers would wait for ever. Records of
# other containers are deleted: a master waits a minute for workers that are gone.
cd /var/lib/rackstream/spark-master || exit
find . -mindepth 1 -maxdepth 1 ! -name "$HOSTNAME" -exec rm -r {} +
SPARK_DAEMON_JAVA_OPTS+=" -Dspark.deploy.recoveryMode=FILESYSTEM"
SPARK_DAEMON_JAVA_OPTS+=" -Dspark.deploy.recoveryDirectory=$PWD/$HOSTNAME"
export SPARK_DAEMON_JAVA_OPTS
exec spark-class org.apache.spark.deploy.master.Master "$@"
