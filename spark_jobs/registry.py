"""The jobs by name, in the order of the contract."""

from spark_jobs import (
    action_counts,
    ad_attribution,
    archive,
    deduplicate,
    lost_signal,
    overheating,
    rack_temperature,
    silent_sensor,
    site_outage,
    user_sessions,
    user_totals,
    weak_signal,
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
        lost_signal.JOB,
        silent_sensor.JOB,
        weak_signal.JOB,
        site_outage.JOB,
    )
}
