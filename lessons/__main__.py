"""Provide the lessons on the command line: `python -m lessons list|show|run|pages`."""

if __name__ == "__main__":
    from events.start import end_at_ctrl_c

    end_at_ctrl_c()


from typing import Annotated

import typer

from events import cli, settings
from lessons.harness import pages, runner
from lessons.harness.catalogue import CHAPTERS, NAMES, load

app = cli.new_app("Lessons: Structured Streaming in small programs, each with its expected output.")


@app.command("list")
def list_lessons() -> None:
    """List the lessons in their order."""
    for chapter, names in CHAPTERS.items():
        typer.echo(chapter)
        for name in names:
            typer.echo(f"  {name:<24} {load(name).title}")


@app.command()
def show(name: Annotated[str, typer.Argument(help="The lesson; `list` shows the names.")]) -> None:
    """Print a lesson's source, with its explanation at the top."""
    typer.echo(load(name).source)


@app.command()
def run(
    names: Annotated[
        list[str] | None, typer.Argument(help="The lessons to run; `list` shows the names.")
    ] = None,
    run_all: Annotated[
        bool, typer.Option("--all", help="Run all lessons, in their order.")
    ] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the lessons' files, below RACKSTREAM_HOME.")
    ] = False,
    accept: Annotated[
        bool,
        typer.Option(
            "--accept", help="Store this output as the expected one; check the diff afterwards."
        ),
    ] = False,
) -> None:
    """Run lessons and compare their output; exit with 1 if one differs."""
    if bool(names) == run_all:
        raise cli.UserFacingError("name the lessons to run, or use --all.")
    lessons = [load(name) for name in names or NAMES]
    different = runner.run_lessons(
        lessons, settings.load(), keep=keep, accept=accept, echo=typer.echo
    )
    if different:
        typer.echo(f"Output not as expected: {', '.join(different)}", err=True)
        raise typer.Exit(1)
    typer.echo(f"{len(lessons)} of {len(lessons)} lessons printed the expected output.")


@app.command("pages")
def write_pages() -> None:
    """Generate the lessons' pages in docs/."""
    typer.echo(f"{len(pages.write())} pages written.")


if __name__ == "__main__":
    cli.run(app, "lessons")
