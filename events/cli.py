"""What every command line shares: a person's mistake ends in one sentence, a bug in a stack trace."""

import sys

import typer


class PersonError(Exception):
    """Something that a person can put right. Its text is a sentence that says what to do."""


def new_app(help_text: str) -> typer.Typer:
    """Return an empty command line: help when called without a command, plain tracebacks for bugs."""
    return typer.Typer(
        help=help_text,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def run(app: typer.Typer, program: str) -> None:
    """Run the command line; exit 1 with one sentence on a `PersonError`, 130 on Ctrl-C, 2 on wrong usage."""
    try:
        app(prog_name=f"python -m {program}")
    except PersonError as error:
        print(f"{program}: {error}", file=sys.stderr)  # noqa: T201 - this is the place that prints errors
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
