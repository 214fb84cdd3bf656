"""What `spark-submit` is given: the same program as `python -m spark_jobs`, with the same arguments.

`spark-submit submit.py run overheating …` takes the master, memory and cores from spark-submit. The file lies beside
the packages because spark-submit puts its folder on the path, and in `spark_jobs/` our `kafka.py` would hide Kafka's.
"""

import runpy

if __name__ == "__main__":
    runpy.run_module("spark_jobs", run_name="__main__", alter_sys=True)
