"""Where a query keeps its state, and whether the state there can be gone on with.

A checkpoint lies below `--checkpoint-root` at job / plan / rules version / prefix (`-` for none). A note in it says
with what it was begun; starting it with something else is refused, since its state would be read as what it is not.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from events.cli import PersonError

_NOTE = "begun-with.json"


@dataclass(frozen=True, slots=True)
class Identity:
    """What state depends on. `shape` names the options that shaped it and the number of state partitions."""

    job: str
    plan: str
    rules_version: str
    prefix: str
    shape: dict[str, str]


def checkpoint_path(root: str, identity: Identity) -> str:
    """Return the folder (or URL) of a query's checkpoint."""
    return "/".join(
        [root.rstrip("/"), identity.job, identity.plan, identity.rules_version, identity.prefix or "-"]
    )


def claim(root: str, identity: Identity) -> str:
    """Return the checkpoint's folder for a query that is about to start; refuse one begun with something else.

    The note is kept only for local folders: object stores are guarded by the path alone.
    """
    path = checkpoint_path(root, identity)
    if "://" in root:
        return path
    note = Path(path) / _NOTE
    shape = {"shape": identity.shape}
    if note.exists():
        begun = json.loads(note.read_text(encoding="utf-8"))
        changed = [
            f"{name} was {begun['shape'].get(name)} and is {value} now"
            for name, value in identity.shape.items()
            if begun["shape"].get(name) != value
        ]
        if changed:
            raise PersonError(
                f"the checkpoint {path} was begun with other options ({'; '.join(changed)}): "
                "run with those, or name another --checkpoint-root to begin anew."
            )
    else:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(json.dumps(shape), encoding="utf-8")
    return path
