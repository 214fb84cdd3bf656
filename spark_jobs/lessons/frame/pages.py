"""The lessons' pages in docs/: a contents page in their order, and a page for each, all made from the lessons."""

from pathlib import Path

from spark_jobs.lessons.frame.catalogue import CHAPTERS, LESSONS, NAMES, Lesson, load

ROOT = LESSONS.parent.parent
DOCS = ROOT / "docs"

HEADER = "<!-- Made by `python -m spark_jobs.lessons pages` from the lesson itself: change that. -->\n\n"


def pages() -> dict[Path, str]:
    """Return every page that there should be, with its text."""
    found = {DOCS / "lessons.md": _contents()}
    for at, name in enumerate(NAMES):
        before = NAMES[at - 1] if at else None
        after = NAMES[at + 1] if at + 1 < len(NAMES) else None
        found[DOCS / "lessons" / f"{name}.md"] = _page(load(name), before, after)
    return found


def stale() -> list[Path]:
    """Return the pages that are missing, differ from their lesson, or belong to no lesson."""
    wanted = pages()
    there = {*(DOCS / "lessons").glob("*.md"), *(path for path in wanted if path.exists())}
    return sorted(
        path
        for path in there | set(wanted)
        if path not in there or path not in wanted or path.read_text(encoding="utf-8") != wanted[path]
    )


def write() -> list[Path]:
    """Write all pages, remove those of lessons that are no more, and return the paths written."""
    wanted = pages()
    (DOCS / "lessons").mkdir(parents=True, exist_ok=True)
    for path in (DOCS / "lessons").glob("*.md"):
        if path not in wanted:
            path.unlink()
    for path, text in wanted.items():
        path.write_text(text, encoding="utf-8")
    return list(wanted)


def _contents() -> str:
    lines = [
        "# Lessons",
        "",
        "Every idea of Structured Streaming as a program of a page, with its data beside it and an output that a test",
        "holds. It runs in seconds, in a folder of its own that was empty before and is empty afterwards.",
        "",
        "| command | what |",
        "|---|---|",
        "| `python -m spark_jobs.lessons list` | the lessons in their order |",
        "| `python -m spark_jobs.lessons show late_rows` | a lesson's source, with its explanation at the top |",
        "| `python -m spark_jobs.lessons run late_rows` | run it and compare what it prints; 1 when it differs |",
        "| `make lessons` | run all; those with Kafka start a broker of their own on a free port |",
        "",
        "`run --keep` leaves a lesson's files where they can be looked at. After a lesson was changed, `run --accept`",
        "makes its output the expected one, and `pages` writes these pages anew.",
        "",
    ]
    for chapter, names in CHAPTERS.items():
        lines += [f"## {chapter}", ""]
        lines += [f"- [`{name}`](lessons/{name}.md): {load(name).title}" for name in names]
        lines.append("")
    return HEADER + "\n".join(lines)


def _page(lesson: Lesson, before: str | None, after: str | None) -> str:
    source = f"../../spark_jobs/lessons/{lesson.name}.py"
    files = sorted(path.relative_to(LESSONS) for path in lesson.data.rglob("*") if path.is_file())
    data = ", ".join(f"[`{path.name}`](../../spark_jobs/lessons/{path.as_posix()})" for path in files)
    output = lesson.expected.read_text(encoding="utf-8") if lesson.expected.exists() else ""
    around = [f"[before: {before}]({before}.md)" if before else "", "[all lessons](../lessons.md)"]
    around.append(f"[next: {after}]({after}.md)" if after else "")
    return HEADER + "\n".join(
        [
            f"# {lesson.title}",
            "",
            f"{lesson.chapter} · `python -m spark_jobs.lessons run {lesson.name}` · [source]({source})",
            "",
            lesson.explanation,
            "",
            f"**Data.** {data or lesson.parts.get('Data', '')}",
            "",
            "**Output.**",
            "",
            "```text",
            output.rstrip("\n"),
            "```",
            "",
            f"**Notice.** {lesson.parts.get('Notice', '')}",
            "",
            f"**In production.** {lesson.parts.get('In production', '')}",
            "",
            " · ".join(part for part in around if part),
            "",
        ]
    )
