"""The comparison of the README's transcript with a program's output finds every difference."""

import re

import pytest

import setup_env
from jars.fetch import read_lock
from tests.readme import longer_than_the_run, not_printed, transcript
from tests.support import ROOT

INSTANT = r"\d{4}-\d\d-\d\dT\d\d:\d\d"
"""A time up to its minute."""


def test_times_numbers_ids_and_widths_may_differ_and_nothing_else() -> None:
    shown = transcript()
    other_run = [
        re.sub(INSTANT, "2027-01-01T10:17", line)
        .replace("…", "Rack rack-0033 is something.")
        .replace("100 readings/s", "1,000 readings/s")
        .replace("alerts  ", "alerts    ")
        for line in shown
    ]
    other_run = [re.sub(r"\brack-\d+", "rack-0033", line) for line in other_run]
    other_run = [re.sub(r"\bsite-[\w-]+", "site-jonesland", line) for line in other_run]
    assert other_run != shown
    assert not_printed(other_run) == []
    for number, line in enumerate(shown):
        assert not_printed([*other_run[:number], *other_run[number + 1 :]]) == [line]
    assert not_printed([]) == shown
    assert not_printed([line.upper() for line in other_run]) == shown


def test_the_transcript_is_short() -> None:
    assert len(transcript()) <= 5
    assert max(map(len, transcript())) <= 100


def test_the_rates_are_those_of_the_plan_with_dead_letters() -> None:
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    row = r"^\| dead-letters-catch-up \| {} backlog of [\d,]+ \| records/s: ([\d,]+) "
    measured = [
        re.findall(row.format(variant), page, flags=re.MULTILINE)[0].replace(",", "")
        for variant in ("windows", "alerts")
    ]
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    quoted = re.search(r"aggregate ([\d,]+) readings/s .* overheating rule for ([\d,]+)/s", readme)
    assert quoted
    rounded = [f"{round(int(rate), -4):,}" for rate in measured]
    assert list(quoted.groups()) == rounded


def test_the_times_of_the_containers_are_those_of_the_last_row_of_their_table() -> None:
    page = (ROOT / "docs" / "tuning.md").read_text(encoding="utf-8")
    table = page.split("\n## The containers\n")[1].split("\n\n")[1]
    measured = re.search(r"\| (?:at most )?(\d+) \| (\d+) \|$", table)
    assert measured
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    first_alert = r"first alert came within (\d+) s of `docker compose up`"
    quoted = re.search(rf"{first_alert}\. Within (\d+) s every rule had raised ", readme)
    assert quoted
    assert quoted.groups() == measured.groups()


def test_the_versions_are_those_of_the_locks() -> None:
    packages = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    pyspark = re.search(r"^pyspark==(\S+)", packages, flags=re.MULTILINE)
    assert pyspark
    locked = {
        "PySpark": pyspark[1],
        "Spark's Kafka connector": version_of("spark", "spark-sql-kafka-0-10_2.13"),
        "Kafka": version_of("broker", "kafka_2.13"),
    }
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    found = {name: re.findall(rf"\b{name} (\d+\.\d+\.\d+)", readme) for name in locked}
    assert found == {name: [version] for name, version in locked.items()}


def test_the_oldest_python_and_the_javas_are_those_that_setup_accepts() -> None:
    python = ".".join(map(str, setup_env.OLDEST_PYTHON))
    javas = " or ".join(map(str, setup_env.JAVA_VERSIONS))
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"Python {python} or newer, and Java {javas};" in readme


def version_of(lock: str, artifact: str) -> str:
    """Return the version of a jar in a lock file."""
    (version,) = (jar.version for jar in read_lock(lock) if jar.artifact == artifact)
    return version


def test_the_alerts_of_the_transcript_fit_into_the_run() -> None:
    assert longer_than_the_run(transcript()) is None


@pytest.mark.parametrize(
    ("second", "found"),
    [
        ("2026-11-23T06:05:21.270Z", None),
        ("2026-11-23T06:05:21.271Z", None),
        ("2026-11-23T06:05:31.079Z", "69.808 s in a run of 60 s"),
    ],
)
def test_alerts_that_cannot_be_of_one_run_are_found(second: str, found: str | None) -> None:
    lines = [
        "40 racks send 100 readings/s for 60 s to a Kafka broker on localhost:9092; 2 overheat.",
        "2026-11-23T06:04:21.271Z error    WARNING rack-overheating rack-0014 at site-a: …",
        f"{second} info     NORMAL  rack-overheating rack-0014 at site-a: …",
    ]
    assert longer_than_the_run(lines) == found
