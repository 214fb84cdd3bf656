#!/usr/bin/env bash
# Start a Spark executor in a pod. Spark on Kubernetes passes everything in the environment and
# expects the image to start the executor backend. The image's entry point is Python, so the pod
# template names this script.
set -euo pipefail
mapfile -t options < <(env | sed -n 's/^SPARK_JAVA_OPT_[0-9]*=//p')
jars=$(python -c 'import pyspark, pathlib; print(pathlib.Path(pyspark.__file__).with_name("jars"))')
exec java "${options[@]}" "-Xmx$SPARK_EXECUTOR_MEMORY" -cp "${SPARK_CLASSPATH:-}:$jars/*" \
  org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
  --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" \
  --cores "$SPARK_EXECUTOR_CORES" \
  --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
  --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
