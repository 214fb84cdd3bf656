"""Run the command line of any program: users' errors end in a sentence, bugs in a stack trace."""

import math
import signal
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import FrameType

import typer

from events.start import expect_ctrl_c

END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a program which has started others."""


class UserFacingError(Exception):
    """An error that the user can correct. Its text is a sentence that says what to do."""


def number_within(
    flag: str, given: str | float, bounds: tuple[float, float], unit: str = ""
) -> float:
    """Return a number; raise `UserFacingError` if it is NaN, outside the bounds or no number."""
    least, most = bounds
    try:
        number = float(given) if isinstance(given, str) else given
    except ValueError:
        number = math.nan
    if not least <= number <= most:
        of_unit = f" of {unit}" if unit else ""
        raise UserFacingError(f"{flag} {given} is not a number{of_unit} from {least} to {most}.")
    return number


def names_within(flag: str, given: str, choices: Collection[str], noun: str) -> tuple[str, ...]:
    """Return the names in a comma-separated list; raise `UserFacingError` for an unknown one."""
    names = tuple(name.strip() for name in given.split(","))
    for name in names:
        if name not in choices:
            raise UserFacingError(
                f"{flag} {given}: unknown {noun} {name!r}; choose from {', '.join(choices)}."
            )
    return names


def new_app(help_text: str) -> typer.Typer:
    """Return a command line without commands: it shows its help, and plain tracebacks for bugs."""
    return typer.Typer(
        help=help_text,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def run(app: typer.Typer, program: str) -> None:
    """Run the command line and exit.

    Exit status: 1 with one sentence on a `UserFacingError`, 2 on wrong usage, as an argument that
    is not UTF-8 where only text will do, and 130 on Ctrl-C.
    """
    expect_ctrl_c()
    try:
        app(prog_name=f"python -m {program}")
    except UserFacingError as error:
        print(f"{program}: {error}", file=sys.stderr)  # noqa: T201 - this is the place that prints errors
        sys.exit(1)
    except UnicodeEncodeError as error:
        # Python keeps the bytes of such an argument as surrogates, which a path may have.
        if not any(error.object in argument for argument in sys.argv[1:]):
            raise
        print(f"{program}: {error.object!r} is not UTF-8: correct that argument.", file=sys.stderr)  # noqa: T201 - as above
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


@contextmanager
def collected_signals(*, second_kills: bool = False) -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM while the context lasts, so that a program can end in order.

    With `second_kills` the second one ends the process at once, whatever it is waiting for.
    """
    received: list[int] = []

    def remember(number: int, _frame: FrameType | None) -> None:
        if received and second_kills:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        received.append(number)

    before = {number: signal.signal(number, remember) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def handle_end(handler: Callable[[int, FrameType | None], None]) -> None:
    """Call the handler for each of `END_SIGNALS`.

    Under `nohup` SIGHUP is ignored, and stays so: the program outlives its terminal.
    """
    for number in END_SIGNALS:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


def unwind_at_end() -> None:
    """Let each of `END_SIGNALS` unwind the program, so that it stops what it has started.

    The first signal raises `KeyboardInterrupt` or `SystemExit`; further ones are ignored.
    """
    handle_end(_unwind)


def _unwind(number: int, _frame: FrameType | None) -> None:
    for each in END_SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + number)
