"""Where a query's state lies, and when it is refused."""

from pathlib import Path

import pytest

from events.cli import PersonError
from spark_jobs.checkpoints import Identity, checkpoint_path, claim


def identity(**shape: str) -> Identity:
    return Identity("rack_temperature", "micro-batch", "v1", "test-", shape)


def test_the_path_is_job_plan_rules_version_and_prefix() -> None:
    assert checkpoint_path("root/", identity()) == "root/rack_temperature/micro-batch/v1/test-"


def test_no_prefix_is_a_dash_so_that_the_path_keeps_its_depth() -> None:
    bare = Identity("overheating", "real-time", "v2", "", {})
    assert checkpoint_path("s3a://bucket/state", bare) == "s3a://bucket/state/overheating/real-time/v2/-"


def test_what_was_begun_with_the_same_options_goes_on(tmp_path: Path) -> None:
    first = claim(str(tmp_path), identity(window="10 minutes", state_partitions="4"))
    assert claim(str(tmp_path), identity(window="10 minutes", state_partitions="4")) == first
    assert Path(first).is_dir()


def test_other_options_are_refused_each_with_what_it_was_and_is(tmp_path: Path) -> None:
    path = claim(str(tmp_path), identity(window="10 minutes", slide="5 minutes", state_partitions="4"))
    with pytest.raises(PersonError) as refused:
        claim(str(tmp_path), identity(window="20 minutes", slide="5 minutes", state_partitions="8"))
    assert str(refused.value) == (
        f"the checkpoint {path} was begun with other options "
        "(window was 10 minutes and is 20 minutes now; state_partitions was 4 and is 8 now): "
        "run with those, or name another --checkpoint-root to begin anew."
    )


def test_a_refusal_changes_nothing(tmp_path: Path) -> None:
    claim(str(tmp_path), identity(window="10 minutes"))
    with pytest.raises(PersonError):
        claim(str(tmp_path), identity(window="20 minutes"))
    assert claim(str(tmp_path), identity(window="10 minutes"))


def test_a_prefix_or_a_plan_of_its_own_has_state_of_its_own(tmp_path: Path) -> None:
    one = claim(str(tmp_path), Identity("overheating", "real-time", "v1", "a-", {"state_partitions": "4"}))
    two = claim(str(tmp_path), Identity("overheating", "real-time", "v1", "b-", {"state_partitions": "8"}))
    three = claim(str(tmp_path), Identity("overheating", "micro-batch", "v1", "a-", {}))
    assert len({one, two, three}) == 3
