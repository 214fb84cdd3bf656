"""Where a query keeps its state, and when the state is refused."""

import errno
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from events.cli import UserFacingError
from spark_jobs.runtime.checkpoints import Identity, checkpoint_path, locked, open_checkpoint


def identity(**fingerprint: str) -> Identity:
    return Identity("rack_temperature", "micro-batch", "v1", "test-", fingerprint)


def test_the_path_is_job_plan_state_version_and_prefix() -> None:
    assert checkpoint_path("root/", identity()) == "root/rack_temperature/micro-batch/v1/test-"


def test_no_prefix_is_a_dash_so_that_the_path_keeps_its_depth() -> None:
    bare = Identity("overheating", "real-time", "v2", "", {})
    assert (
        checkpoint_path("s3a://bucket/state", bare)
        == "s3a://bucket/state/overheating/real-time/v2/-"
    )


def test_a_query_with_the_same_options_continues(tmp_path: Path) -> None:
    first = open_checkpoint(str(tmp_path), identity(window="10 minutes", state_partitions="4"))
    assert (
        open_checkpoint(str(tmp_path), identity(window="10 minutes", state_partitions="4")) == first
    )
    assert Path(first).is_dir()


def test_other_options_are_refused_with_their_old_and_new_values(tmp_path: Path) -> None:
    path = open_checkpoint(
        str(tmp_path), identity(window="10 minutes", slide="5 minutes", state_partitions="4")
    )
    with pytest.raises(UserFacingError) as refused:
        open_checkpoint(
            str(tmp_path), identity(window="20 minutes", slide="5 minutes", state_partitions="8")
        )
    assert str(refused.value) == (
        f"the checkpoint {path} was started with other options "
        "(window was 10 minutes and is now 20 minutes; state_partitions was 4 and is now 8): "
        "use those, or choose another --checkpoint-root to start from the beginning."
    )


def test_a_refusal_changes_nothing(tmp_path: Path) -> None:
    open_checkpoint(str(tmp_path), identity(window="10 minutes"))
    with pytest.raises(UserFacingError):
        open_checkpoint(str(tmp_path), identity(window="20 minutes"))
    assert open_checkpoint(str(tmp_path), identity(window="10 minutes"))


@pytest.mark.parametrize("content", [b"", b'{"window": "10 mi', b"\xff"])
def test_a_damaged_fingerprint_is_refused_in_one_sentence(tmp_path: Path, content: bytes) -> None:
    folder = Path(open_checkpoint(str(tmp_path), identity(window="10 minutes")))
    file = folder / "fingerprint.json"
    file.write_bytes(content)
    with pytest.raises(UserFacingError) as refused:
        open_checkpoint(str(tmp_path), identity(window="10 minutes"))
    assert str(refused.value) == (
        f"{file} is damaged, so the options of its checkpoint are unknown: delete the folder "
        f"{folder}, or choose another --checkpoint-root, to start from the beginning."
    )


def test_a_start_whose_fingerprint_was_not_written_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_disk(file: Path, *_: Any, **__: Any) -> None:
        file.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full, pytest.raises(OSError, match="No space left"):
        full.setattr(Path, "write_bytes", fill_disk)
        open_checkpoint(str(tmp_path), identity(window="10 minutes"))
    path = open_checkpoint(str(tmp_path), identity(window="10 minutes"))
    assert [file.name for file in Path(path).iterdir()] == ["fingerprint.json"]


def test_each_prefix_and_each_plan_has_its_own_state(tmp_path: Path) -> None:
    one = open_checkpoint(
        str(tmp_path), Identity("overheating", "real-time", "v1", "a-", {"state_partitions": "4"})
    )
    two = open_checkpoint(
        str(tmp_path), Identity("overheating", "real-time", "v1", "b-", {"state_partitions": "8"})
    )
    three = open_checkpoint(str(tmp_path), Identity("overheating", "micro-batch", "v1", "a-", {}))
    assert len({one, two, three}) == 3


def test_a_checkpoint_of_a_previous_version_is_refused(tmp_path: Path) -> None:
    folder = Path(checkpoint_path(str(tmp_path), identity()))
    folder.mkdir(parents=True)
    (folder / "begun-with.json").write_text('{"shape": {}}', encoding="utf-8")
    with pytest.raises(UserFacingError) as refused:
        open_checkpoint(str(tmp_path), identity())
    assert str(refused.value) == (
        f"the checkpoint {folder} was written by a previous version of Rackstream: "
        "delete it, or choose another --checkpoint-root, to start from the beginning."
    )
    assert [file.name for file in folder.iterdir()] == ["begun-with.json"]


def test_a_checkpoint_of_a_previous_version_with_another_state_version_is_refused(
    tmp_path: Path,
) -> None:
    old = tmp_path / "weak_signal/micro-batch/v1-0a1b2c3d/test-"
    old.mkdir(parents=True)
    (old / "begun-with.json").write_text("{}", encoding="utf-8")
    now = Identity("weak_signal", "micro-batch", "v2", "test-", {})
    with pytest.raises(UserFacingError) as refused:
        open_checkpoint(str(tmp_path), now)
    assert str(refused.value) == (
        f"the checkpoint {old} was written by a previous version of Rackstream: "
        "delete it, or choose another --checkpoint-root, to start from the beginning."
    )
    assert not Path(checkpoint_path(str(tmp_path), now)).exists()
    assert open_checkpoint(str(tmp_path), Identity("weak_signal", "micro-batch", "v2", "b-", {}))


def test_a_new_checkpoint_does_not_continue_files_of_another_one(tmp_path: Path) -> None:
    landing = tmp_path / "archive/landing/test-alerts"
    archive = Identity("archive-alerts", "micro-batch", "v1", "test-", {"folder": str(landing)})
    first = open_checkpoint(str(tmp_path / "first"), archive, str(landing))
    (landing / "_spark_metadata").mkdir(parents=True)
    assert open_checkpoint(str(tmp_path / "first"), archive, str(landing)) == first
    with pytest.raises(UserFacingError) as refused:
        open_checkpoint(str(tmp_path / "second"), archive, str(landing))
    path = checkpoint_path(str(tmp_path / "second"), archive)
    assert str(refused.value) == (
        f"{landing} was written with another checkpoint than {path}, which is new: "
        "choose another --archive, or the checkpoint root that wrote it."
    )
    assert not Path(path).exists()


def test_a_second_driver_is_refused_until_the_first_has_ended(tmp_path: Path) -> None:
    root, other = str(tmp_path), Identity("user_totals", "totals", "v1", "test-", {})
    path = checkpoint_path(root, identity())
    with locked(root, [identity()]):
        with pytest.raises(UserFacingError) as refused, locked(root, [other, identity()]):
            pass
        with locked(root, [other]):  # the refused one has released it
            pass
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert str(refused.value) == (
        f"process {os.getpid()} on {socket.gethostname()} runs rack_temperature with the "
        f"checkpoint {path}: end it first, or give this one another --checkpoint-root."
    )
    with child, locked(root, [identity()]):  # a child of the first does not hold the lock
        assert open_checkpoint(root, identity()) == path


def test_a_killed_driver_leaves_no_lock(tmp_path: Path) -> None:
    path = Path(checkpoint_path(str(tmp_path), identity()))
    path.mkdir(parents=True)
    code = (
        "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.flock(file, fcntl.LOCK_EX);"
        "print('locked', flush=True); input()"
    )
    command = [sys.executable, "-c", code, str(path / "driver.lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as driver:
        assert driver.stdout and driver.stdout.readline() == b"locked\n"
        with (
            pytest.raises(UserFacingError, match=r"^another process runs rack_temperature with"),
            locked(str(tmp_path), [identity()]),
        ):
            pass
        driver.kill()
    with locked(str(tmp_path), [identity()]):
        pass


def test_what_cannot_be_locked_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    for root in ("s3a://bucket/state", "file"):
        with locked(root, [identity()]), locked(root, [identity()]):
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
