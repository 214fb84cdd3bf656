"""List the jobs by name, in the order of `events.catalog`.

The catalog names each job. Its module has that name: `rules/weak_signal.py`, or `job.py` in a
folder such as `rules/overheating`. The module's constant `JOB` is the job.
"""

from importlib import import_module
from pathlib import Path
from types import ModuleType

from events.catalog import JOBS as NAMES
from spark_jobs.runtime.job import Job

_HERE = Path(__file__).parent


def module_file(folder: Path, name: str) -> Path:
    """Return the file of a job's module; raise `LookupError` unless there is exactly one."""
    files = [*folder.glob(f"*/{name}.py"), *folder.glob(f"*/{name}/job.py")]
    if len(files) != 1:
        found = " and ".join(str(file.relative_to(folder)) for file in sorted(files))
        raise LookupError(
            f"the job {name} needs exactly one module below {folder} ({name}.py or {name}/job.py "
            f"in a subfolder): found {found or 'none'}."
        )
    return files[0]


def _module(name: str) -> ModuleType:
    path = module_file(_HERE, name).relative_to(_HERE.parent).with_suffix("").parts
    return import_module(".".join(path))


_MODULES = {name: _module(name) for name in NAMES}

JOBS: dict[str, Job] = {name: module.JOB for name, module in _MODULES.items()}

QUESTIONS: dict[str, str] = {
    name: (module.__doc__ or "").partition("\n")[0] for name, module in _MODULES.items()
}
"""What each job answers, as its module's docstring begins."""
