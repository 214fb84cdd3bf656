"""Files that several processes use: what is said when they cannot be locked or written."""

from pathlib import Path

import pytest

from events.cli import UserFacingError
from events.files import exclusive_lock


def test_a_lock_that_another_process_has_is_the_callers_sentence(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with (
        exclusive_lock(lock, "it is in use."),
        pytest.raises(UserFacingError, match=r"^it is in use\.$"),
        exclusive_lock(lock, "it is in use."),
    ):
        pass
    with exclusive_lock(lock, "it is in use."):
        pass  # it was given back


def test_a_lock_file_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserFacingError) as refused, exclusive_lock(tmp_path, "it is in use."):
        pass
    assert str(refused.value) == (
        f"the lock file {tmp_path} cannot be written (Is a directory): "
        "correct its folder's owner, or choose another folder."
    )


def test_an_error_while_a_lock_is_held_is_not_about_the_lock(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), exclusive_lock(tmp_path / "lock", "it is in use."):
        (tmp_path / "nowhere").read_bytes()
