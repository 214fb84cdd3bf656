"""Write files that other processes read."""

from pathlib import Path


def replace_file(file: Path, content: bytes) -> None:
    """Replace a file's content in one step: a reader sees the old or the new, and never a part.

    Raises `OSError` when it cannot be written.
    """
    temporary = file.with_name(f".{file.name}.tmp")
    temporary.write_bytes(content)
    temporary.replace(file)
