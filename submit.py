"""Run `python -m spark_jobs` under `spark-submit`, with the same arguments.

`spark-submit submit.py run overheating …` takes the master, memory and cores from spark-submit. It
lies beside the packages because spark-submit puts the file's folder on Python's path.
"""

import runpy

if __name__ == "__main__":
    runpy.run_module("spark_jobs", run_name="__main__", alter_sys=True)
