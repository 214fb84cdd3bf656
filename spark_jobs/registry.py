"""The jobs by name, in the order of the contract."""

from spark_jobs import overheating, rack_temperature
from spark_jobs.job import Job

JOBS: dict[str, Job] = {job.name: job for job in (rack_temperature.JOB, overheating.JOB)}
