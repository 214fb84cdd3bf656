"""A load plan defines points in running order; a mistake in it is named with its line."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from msgspec.structs import replace

from events.cli import UserFacingError
from loadtest import commands, container
from loadtest.container import Service
from loadtest.plan import (
    Limits,
    Plan,
    Point,
    load_plan,
    points,
    variants,
    without_engines,
)
from loadtest.short import shortened
from producer.faults import Late, Silence
from producer.pacing.shape import SingleBurst
from producer.scenario import load_scenario
from spark_jobs.registry import JOBS
from spark_jobs.runtime.job import COMMON_OPTIONS
from tests.support import ROOT, run

PLANS = sorted((ROOT / "loadtest" / "plans").glob("*.yaml"))


def written(folder: Path, text: str) -> Path:
    path = folder / "plan.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def programs(planned: Iterable[Point]) -> set[tuple[object, ...]]:
    """Return what the points run, whatever their loads."""
    return {(each.variant, each.settings.jobs, each.settings.engine) for each in planned}


def test_every_plan_of_the_project_is_valid(tmp_path: Path) -> None:
    assert len(PLANS) > 20
    for path in PLANS:
        planned = list(points(load_plan(path)))
        assert len({point.folder for point in planned}) == len(planned) > 0, path
        for point in planned:
            commands.write_scenario(point, tmp_path)
            load_scenario(tmp_path / commands.SCENARIO, {}, [])


def test_a_short_form_runs_the_same_points_with_a_small_load(tmp_path: Path) -> None:
    for path in PLANS:
        plan = load_plan(path)
        short = shortened(plan)
        planned = list(points(short))
        assert programs(planned) == programs(points(plan)), path
        assert len(planned) * plan.repeats == len(list(points(plan))), path
        for point in planned:
            assert 0 < point.records <= 120_000, path
            assert point.seconds <= (190 if point.settings.kills else 24), path
            assert point.settings.limits == Limits(), path
            commands.write_scenario(point, tmp_path)
            load_scenario(tmp_path / commands.SCENARIO, {}, [])


def test_a_short_form_keeps_the_proportions_of_faults_shapes_and_batches() -> None:
    live = Plan(
        jobs=("overheating",),
        rate=(300, 1200),
        warm_up=40,
        duration=56,
        shape=SingleBurst(start_s=48, length_s=12),
        faults=(Silence(start_s=24, length_s=96, every_s=None, stagger_s=2), Late(max_s=20)),
    )
    slow, fast = points(shortened(live))
    assert (slow.rate, fast.rate, fast.seconds) == (150, 600, 24)
    assert fast.settings.shape == SingleBurst(start_s=12, length_s=3)
    silence = Silence(start_s=6, length_s=24, every_s=None, stagger_s=0.5)
    assert fast.settings.faults == (silence, Late(max_s=20))
    backlog = Plan(jobs=("overheating",), trigger="micro-batch", count=3_000_000, kill_at=0.6)
    (point,) = points(shortened(backlog))
    assert point.settings.options == ("--records-per-batch=40000",)
    assert (point.settings.count, point.settings.kills) == (120_000, (0.6,))


MISTAKES = [
    ("jobs: [overheating]\nrate: 0\n", "line 2 of the load plan {} (rate): "),
    (
        "jobs: [overheating]\n\nrates: 5\n",
        "line 3 of the load plan {}: Object contains unknown field `rates`.",
    ),
    ("rate: 5\n", "line 1 of the load plan {}: Object missing required field `jobs`."),
    (
        "jobs: [overheeting]\n",
        "line 1 of the load plan {} (jobs[0]): unknown job 'overheeting'; the jobs are ",
    ),
    (
        "rate: 5\njobs: []\ntruth: false\n",
        "line 2 of the load plan {} (jobs): a plan without jobs measures only sending, ",
    ),
    (
        "jobs: []\ncount: 5\n",
        "line 1 of the load plan {} (jobs): a plan without jobs has no output to compare: ",
    ),
    (
        "jobs: [overheating]\nsender: producer-performance\n",
        "line 2 of the load plan {} (sender): only a plan without jobs can change the sender.",
    ),
    (
        "jobs: [overheating]\nvariants:\n  - name: a\n    senders: 2\n",
        "line 4 of the load plan {} (variants[0].senders): only a plan without jobs can have ",
    ),
    (
        "jobs: [archive]\ntrigger: micro-batch\n",
        "(jobs[0]): archive writes files, which load plans cannot observe.",
    ),
    (
        "jobs:\n  - ad_attribution\ntrigger: real-time\n",
        "line 3 of the load plan {} (trigger): ad_attribution does not support real-time.",
    ),
    (
        "jobs: [overheating]\nvariants:\n  - name: a\n  - name: b\n    trigger: never\n",
        "line 5 of the load plan {} (variants[1].trigger): ",
    ),
    (
        "jobs: [overheating]\nvariants:\n  - name: a\n  - name: a\n",
        "line 4 of the load plan {} (variants[1].name): another variant has the name 'a'.",
    ),
    (
        "jobs: [overheating]\ntrigger: micro-batch\nfaults:\n  - {fault: latte}\n",
        "line 4 of the load plan {} (faults[0].fault): ",
    ),
    (
        "jobs: [overheating]\ncount: 9\nkill_at: 0.5\n",
        "line 3 of the load plan {} (kill_at): only micro-batch jobs can be killed.",
    ),
    (
        "jobs: [overheating]\ntrigger: micro-batch\ncount: 9\nkill_at: [0.5, 0.6]\n",
        "line 4 of the load plan {} (kill_at): a catch-up (count) is killed once.",
    ),
    (
        "jobs: [ad_attribution]\nengine: kafka-streams\n",
        "(jobs): kafka-streams runs one job of overheating, rack_temperature.",
    ),
    (
        "jobs: [overheating, rack_temperature]\nengine: flink\n",
        "(jobs): flink runs one job of overheating, rack_temperature, ad_attribution.",
    ),
    (
        "jobs: [overheating]\nengine: flink\noptions: [--no-dead-letters]\n",
        "(options): flink has no option --no-dead-letters.",
    ),
    (
        "jobs: [overheating]\nengine: quix\ntrigger: micro-batch\n",
        "(trigger): quix has no micro-batches.",
    ),
    (
        "jobs: [overheating]\nengine: flink\nservice: real-time\n",
        "line 3 of the load plan {} (service): the image has no flink.",
    ),
    (
        "jobs: [overheating]\ntrigger: micro-batch\ncount: 9\nkill_at: 0.5\nservice: micro-batch\n",
        "line 4 of the load plan {} (kill_at): jobs in a container cannot be killed by a plan.",
    ),
    (
        "jobs: [overheating]\nengine: flink\nconf: {a: b}\n",
        "(conf): only Spark has this setting, flink does not.",
    ),
    (
        "jobs: [rack_temperature]\noptions: [--window=ten minutes]\n",
        "line 2 of the load plan {} (options): '--window=ten minutes' is not of the form "
        "--window=10 minutes.",
    ),
    (
        "jobs: [overheating]\ncapacity:\n  low: 10\n  high: 5\n  p99_ms: 1\n",
        "line 3 of the load plan {} (capacity.low): low must be below high, 5.",
    ),
    (
        "jobs: [overheating]\ncount: 9\ntruth: false\n",
        "line 3 of the load plan {} (truth): only the truth shows that a catch-up in Real-time ",
    ),
    (
        "jobs: [overheating]\nrate: [100, 5, 100.0]\n",
        "line 2 of the load plan {} (rate): a rate is listed twice: use repeats to measure it ",
    ),
    ("jobs: [overheating]\nrate: .inf\n", "line 2 of the load plan {} (rate): "),
    ("jobs: [overheating]\nwarm_up: .inf\n", "line 2 of the load plan {} (warm_up): "),
    ("jobs: [overheating]\nduration: .inf\n", "line 2 of the load plan {} (duration): "),
    ("jobs: [overheating]\ntime_scale: .inf\n", "line 2 of the load plan {} (time_scale): "),
    (
        "jobs: [overheating]\ncapacity: {low: 1, high: .inf, p99_ms: 1}\n",
        "line 2 of the load plan {} (capacity.high): ",
    ),
    (
        "trigger: micro-batch\njobs: [deduplicate]\noptions: [--topic=nope]\n",
        "line 3 of the load plan {} (options): --topic 'nope' is not known to deduplicate: ",
    ),
    (
        "jobs: [deduplicate]\ntrigger: micro-batch\nvariants:\n"
        "  - {name: a, options: [--topic, ad-clicks]}\n",
        "line 4 of the load plan {} (variants[0].options): --topic is empty: give a value, ",
    ),
    (
        "jobs: [overheating]\ntrigger: micro-batch\noptions: [--records-per-batch=abc]\n",
        "(options): '--records-per-batch=abc' is not of the form --records-per-batch=10000.",
    ),
    (
        "jobs: [overheating]\ntrigger: micro-batch\noptions: [--records-per-batch=0]\n",
        "(options): '--records-per-batch=0' is not of the form --records-per-batch=10000.",
    ),
    (
        "jobs: [user_sessions]\ntrigger: micro-batch\noptions: [--device-gap=phone=0 seconds]\n",
        "line 3 of the load plan {} (options): --device-gap phone=0 seconds: write a gap as ",
    ),
    ("jobs: [overheating\n", "the load plan {} is not YAML"),
]


def test_a_mistake_is_named_with_its_line(tmp_path: Path) -> None:
    path, missed = tmp_path / "plan.yaml", []
    for text, problem in MISTAKES:
        path.write_text(text, encoding="utf-8")
        with pytest.raises(UserFacingError) as error:
            load_plan(path)
        if problem.format(path) not in str(error.value):
            missed.append((problem, str(error.value)))
    assert missed == []


def test_a_missing_plan_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        UserFacingError, match=r"no.yaml cannot be read \(No such file or directory\): check PLAN\."
    ):
        load_plan(tmp_path / "no.yaml")


def test_a_plan_that_does_not_exist_is_refused_with_the_names_of_those_that_do() -> None:
    done = run("loadtest", "run", "nope")
    assert done.returncode == 1
    assert done.stderr.startswith("loadtest: there is no plan 'nope': name a file, or one of ")
    assert all(path.stem in done.stderr for path in PLANS)


def test_variants_run_forwards_and_backwards_alternately(tmp_path: Path) -> None:
    variants = "variants: [{name: a}, {name: b, racks: 7, warm_up: 90}]\n"
    text = "jobs: [overheating]\nrate: [100, 200]\nrepeats: 2\n" + variants
    planned = list(points(load_plan(written(tmp_path, text))))
    assert [(p.repeat, p.rate, p.variant) for p in planned] == [
        (0, 100, "a"), (0, 100, "b"), (0, 200, "a"), (0, 200, "b"),
        (1, 100, "b"), (1, 100, "a"), (1, 200, "b"), (1, 200, "a"),
    ]  # fmt: skip
    own = {(p.variant, p.settings.racks, p.settings.warm_up) for p in planned}
    assert own == {("a", 400, 20), ("b", 7, 90)}
    assert [p.label for p in planned[:2]] == ["a 100/s", "b 100/s"]


def test_points_of_rates_that_round_alike_have_folders_and_labels_of_their_own() -> None:
    rates = (0.25, 0.3, 97.5, 97.6, 0.00001, 2000.0, 2000.04, 1e9)
    planned = list(points(Plan(jobs=("overheating",), rate=rates)))
    assert [(point.folder, point.label) for point in planned] == [
        ("0.25-r1", "0.25/s"), ("0.3-r1", "0.3/s"), ("97.5-r1", "97.5/s"), ("97.6-r1", "97.6/s"),
        ("1e-05-r1", "1e-05/s"), ("2000-r1", "2,000/s"), ("2000.04-r1", "2,000.04/s"),
        ("1000000000-r1", "1,000,000,000/s"),
    ]  # fmt: skip


def test_a_point_sends_its_load_for_warm_up_and_duration(tmp_path: Path) -> None:
    text = (
        "jobs: [ad_attribution, user_totals]\ntrigger: micro-batch\nrate: 50\n"
        "warm_up: 3\nduration: 7\nflush: true\nkill_at: [0.5, 0.2]\n"
    )
    (point,) = points(load_plan(written(tmp_path, text)))
    assert point.records == 500
    assert point.settings.kills == (0.2, 0.5)
    scenario = commands.scenario(point)
    assert (scenario["streams"], scenario["rate"], scenario["duration"]) == (
        ("clicks", "actions"),
        50,
        10,
    )
    assert "--flush" in commands.producer(point, tmp_path)
    command = commands.jobs(point, tmp_path)
    assert command[:4] == ["spark_jobs", "run", "ad_attribution", "user_totals"]
    assert "--trigger=micro-batch" in command


def test_a_catch_up_sends_a_count_at_full_speed_and_its_jobs_end(tmp_path: Path) -> None:
    text = "jobs: [overheating]\ntrigger: micro-batch\ncount: 5000\nrate: [1, 2]\n"
    (point,) = points(load_plan(written(tmp_path, text)))
    scenario = commands.scenario(point)
    assert (scenario["rate"], scenario["count"]) == ("max", 5000)
    assert "duration" not in scenario
    assert "--trigger=available-now" in commands.jobs(point, tmp_path)
    assert point.label == "backlog of 5,000"


@pytest.mark.parametrize("service", ["real-time", "micro-batch"])
def test_every_option_of_a_service_is_used_or_says_what_the_point_itself_says(
    service: Service,
) -> None:
    """The services run all jobs, on the deployment's files; the archive writes no topic."""
    own = {"all_real_time", "all_micro_batch", "inventory", "checkpoint_root"}
    known = {*COMMON_OPTIONS, *own, "archive", "archive_seconds"}
    others = container.options(service, lambda name: name not in known)
    assert all(option.startswith("--conf=") for option in others), others


def test_jobs_in_a_container_have_the_services_options_and_the_plan_overrides_them(
    tmp_path: Path,
) -> None:
    text = (
        "jobs: [rack_temperature, overheating]\ntrigger: micro-batch\nservice: micro-batch\n"
        "conf: {spark.driver.memory: 2g}\noptions: [--batch-seconds=5]\n"
    )
    (point,) = points(load_plan(written(tmp_path, text)))
    command = commands.jobs(point, tmp_path)
    given = dict(word.split("=", 1) for word in command if word.startswith("--"))
    assert given["--state-partitions"] == given["--read-tasks"] == "1"
    assert (given["--rules-batch-seconds"], given["--batch-seconds"]) == ("2", "5")
    assert not [word for word in command if word.startswith(("--archive", "--all"))]
    assert given["--inventory"] == str(tmp_path / commands.INVENTORY)
    conf = [word for word in command if word.startswith("--conf=")]
    assert conf.index("--conf=spark.driver.memory=1024m") < conf.index(
        "--conf=spark.driver.memory=2g"
    )
    # What a catch-up or the jobs do not have is left out, as run would refuse it.
    catch_up = replace(point.settings, count=9, jobs=("rack_temperature",), options=())
    command = commands.jobs(Point("", 0.0, 0, catch_up), tmp_path)
    assert "--records-per-batch=100000" in command
    assert not [word for word in command if "batch-seconds" in word]


def test_a_catch_up_in_real_time_mode_does_not_end_by_itself(tmp_path: Path) -> None:
    (point,) = points(load_plan(written(tmp_path, "jobs: [overheating]\ncount: 5000\n")))
    assert "--trigger=real-time" in commands.jobs(point, tmp_path)


def test_a_variant_may_be_a_catch_up_of_its_own_count(tmp_path: Path) -> None:
    variants = "  - {name: a, count: 10}\n  - {name: b, count: 20}\n  - name: c\n"
    text = "jobs: [overheating]\nrate: [5, 9]\nvariants:\n" + variants
    planned = list(points(load_plan(written(tmp_path, text))))
    assert [(p.folder, p.rate, p.settings.count) for p in planned] == [
        ("a-catch-up-r1", 0, 10), ("b-catch-up-r1", 0, 20), ("c-5-r1", 5, None), ("c-9-r1", 9, None)
    ]  # fmt: skip


def test_variants_of_missing_engines_are_left_out(tmp_path: Path) -> None:
    text = "jobs: [overheating]\nvariants:\n  - name: spark\n  - {name: it, engine: flink}\n"
    plan = load_plan(written(tmp_path, text))
    remaining, absent = without_engines(plan, {"flink", "quix"})
    assert ([name for name, _ in variants(remaining)], absent) == (["spark"], ["it"])
    with pytest.raises(UserFacingError, match="none of the plan's engines"):
        without_engines(plan, {"flink", "spark"})
    without_variants = load_plan(written(tmp_path, "jobs: [overheating]\n"))
    assert without_engines(without_variants, {"flink"}) == (without_variants, [])


@pytest.mark.parametrize(
    ("jobs", "options"),
    [
        (
            "weak_signal, overheating",
            ["--truth-kinds=dead-letter,alert", "--alerts-of=weak-signal,rack-overheating"],
        ),
        ("rack_temperature", ["--truth-kinds=dead-letter,window"]),
        ("rack_temperature]\ntruth: false #", []),
    ],
)
def test_the_truth_has_what_the_running_jobs_write(
    tmp_path: Path, jobs: str, options: list[str]
) -> None:
    (point,) = points(load_plan(written(tmp_path, f"jobs: [{jobs}]\n")))
    command = commands.producer(point, tmp_path)
    assert [one for one in command if one.startswith(("--truth-kinds", "--alerts-of"))] == options


def test_a_job_that_reads_other_jobs_output_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "trigger: micro-batch\njobs:\n  - site_outage\n")
    with pytest.raises(
        UserFacingError, match=r"line 3 .*\(jobs\[0\]\): site_outage reads other jobs' output"
    ):
        load_plan(path)


def test_a_job_may_have_pairs_and_flags_as_options(tmp_path: Path) -> None:
    text = "jobs: [{}]\ntrigger: micro-batch\noptions: [{}]\n"
    for job, options in {
        "user_sessions": "--device-gap=phone=10 minutes, --device-gap=tv=1 hour 30 minutes",
        "ad_attribution": "--first-only, --join=inner",
    }.items():
        plan = load_plan(written(tmp_path, text.format(job, options)))
        assert plan.topics_read(job) == JOBS[job].sources


def test_a_job_with_a_query_for_each_topic_is_measured_by_those_of_its_topics(
    tmp_path: Path,
) -> None:
    text = "jobs: [dead_letters]\ntrigger: micro-batch\noptions: [--topic=rack-readings]\n"
    (point,) = points(load_plan(written(tmp_path, text)))
    assert point.settings.streams == ("racks",)
    assert point.settings.main_queries == ("dead_letters-rack-readings",)
    with pytest.raises(UserFacingError, match="dead_letters reads other jobs' output"):
        load_plan(written(tmp_path, "jobs: [dead_letters]\ntrigger: micro-batch\n"))


@pytest.mark.parametrize("job", ["deduplicate", "dead_letters"])
def test_a_plan_that_leaves_a_topic_of_the_click_stream_unread_is_refused(
    tmp_path: Path, job: str
) -> None:
    clicks = f"trigger: micro-batch\noptions: [--topic=ad-clicks]\njobs: [{job}"
    problem = r"line 3 .* \(jobs\): the producer would also send ad-impressions, which no job of "
    with pytest.raises(UserFacingError, match=problem):
        load_plan(written(tmp_path, f"{clicks}]\n"))
    assert load_plan(written(tmp_path, f"{clicks}, ad_attribution]\n")).streams == ("clicks",)
    actions = f"trigger: micro-batch\noptions: [--topic=user-actions]\njobs: [{job}]\n"
    assert load_plan(written(tmp_path, actions)).streams == ("actions",)


def test_a_capacity_is_searched_to_15_percent_with_three_repeats() -> None:
    plans = {path.stem: load_plan(path) for path in PLANS}
    searched = {name: plan for name, plan in plans.items() if plan.capacity}
    assert searched.keys() >= {
        "attribution-engines-capacity",
        "overheating-engines-capacity",
        "windows-engines-capacity",
    }
    assert {
        name: (plan.capacity.precision, plan.repeats)
        for name, plan in searched.items()
        if plan.capacity and (plan.capacity.precision > 0.15 or plan.repeats < 3)
    } == {}
