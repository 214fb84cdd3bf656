"""`python -m spark_jobs.lessons list|show|run|pages`: the lessons on the command line."""

from typing import Annotated

import typer

from events import cli, settings
from spark_jobs.lessons.frame import pages, runner
from spark_jobs.lessons.frame.catalogue import CHAPTERS, NAMES, load

app = cli.new_app("Lessons: every idea of Structured Streaming as a small program with its expected output.")


@app.command("list")
def list_lessons() -> None:
    """List the lessons in their order."""
    for chapter, names in CHAPTERS.items():
        typer.echo(chapter)
        for name in names:
            typer.echo(f"  {name:<24} {load(name).title}")


@app.command()
def show(name: Annotated[str, typer.Argument(help="A lesson; `list` shows them.")]) -> None:
    """Print a lesson's source, with its explanation at the top."""
    typer.echo(load(name).source)


@app.command()
def run(
    names: Annotated[list[str] | None, typer.Argument(help="The lessons to run; `list` shows them.")] = None,
    run_all: Annotated[bool, typer.Option("--all", help="Run all lessons, in their order.")] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the lessons' files, below RACKSTREAM_HOME.")
    ] = False,
    accept: Annotated[
        bool, typer.Option("--accept", help="Make this output the expected one; then read what changed.")
    ] = False,
) -> None:
    """Run lessons on this machine; the exit status is 1 when one prints something else than expected."""
    if bool(names) == run_all:
        raise cli.PersonError("name the lessons to run, or say --all.")
    lessons = [load(name) for name in names or NAMES]
    different = runner.run_lessons(lessons, settings.load(), keep=keep, accept=accept, say=typer.echo)
    if different:
        typer.echo(f"Not as expected: {', '.join(different)}", err=True)
        raise typer.Exit(1)
    typer.echo(f"{len(lessons)} of {len(lessons)} lessons printed what is expected of them.")


@app.command("pages")
def write_pages() -> None:
    """Write the lessons' pages in docs/ anew, from the lessons."""
    typer.echo(f"{len(pages.write())} pages written.")


if __name__ == "__main__":
    cli.run(app, "spark_jobs.lessons")
