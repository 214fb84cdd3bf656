"""The jobs by name, in the order of the contract."""

from spark_jobs import (
    action_counts,
    ad_attribution,
    archive,
    deduplicate,
    overheating,
    rack_temperature,
    user_sessions,
    user_totals,
)
from spark_jobs.job import Job

JOBS: dict[str, Job] = {
    job.name: job
    for job in (
        rack_temperature.JOB,
        overheating.JOB,
        ad_attribution.JOB,
        action_counts.JOB,
        user_sessions.JOB,
        user_totals.JOB,
        deduplicate.JOB,
        archive.JOB,
    )
}
