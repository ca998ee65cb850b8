"""The one place where an exception becomes an exit code and a line on stderr."""

import contextlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import NoReturn

import click

from traceanalyzer.cells import printable
from traceanalyzer.errors import TraceAnalyzerError


class Exit(IntEnum):
    """Exit codes of the command."""

    ANSWERED = 0
    GATE_FAILED = 1
    BAD_INPUT = 2
    NOT_COMPARABLE = 3
    OUR_FAULT = 70
    INTERRUPTED = 130


@dataclass
class State:
    """What the root command hands to the boundary."""

    debug: bool = False


def guarded(work: Callable[[], int | None], state: State) -> int:
    """Run `work`; return its exit code, or the one of the exception that it ended with."""
    try:
        code = work()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader closed our output (`| head`): it got what it wanted.
        return Exit.ANSWERED
    except SystemExit as error:
        # click itself exits with 1 in that case.
        return Exit.ANSWERED if error.code == 1 else int(error.code or 0)
    except (Exception, KeyboardInterrupt) as error:
        return _say(*_told(error, state))
    return code or Exit.ANSWERED


def _told(error: BaseException, state: State) -> tuple[str, Exit]:
    """What to say of an exception, and the exit code."""
    match error:
        case KeyboardInterrupt() | click.Abort():
            text, code = "interrupted", Exit.INTERRUPTED
        case RuntimeError() if "Query interrupted" in str(error):  # so the engine passes an interrupt on
            text, code = "interrupted", Exit.INTERRUPTED
        case click.ClickException():
            text, code = _usage(error), Exit.BAD_INPUT
        case TraceAnalyzerError():
            text, code = f"error: {error}", Exit.BAD_INPUT
        case MemoryError():
            text, code = "error: not enough memory for this question", Exit.BAD_INPUT
        case OSError():
            text, code = f"error: {_os_error(error)}", Exit.BAD_INPUT
        case _:
            text, code = _our_fault(error, state), Exit.OUR_FAULT
    return text, code


def _our_fault(error: BaseException, state: State) -> str:
    if state.debug:
        import traceback

        traceback.print_exception(error)
    again = "" if state.debug else "; run again with --debug before the command to see where"
    return f"internal error, a fault of traceanalyzer: {type(error).__name__}: {error}{again}"


def _usage(error: click.ClickException) -> str:
    text = f"error: {error.format_message().rstrip('.')}"
    context = getattr(error, "ctx", None)
    return f"{text} (see '{context.command_path} --help')" if context is not None else text


def _os_error(error: OSError) -> str:
    why = error.strerror or str(error) or type(error).__name__
    return f"{os.fsdecode(error.filename)}: {why}" if isinstance(error.filename, (str, bytes)) else why


def _say(text: str, code: Exit) -> int:
    """One line on stderr, whatever the text holds."""
    try:
        click.echo(printable(" ".join(text.split())), err=True)
    except OSError:
        return code
    return code


def finish(code: int) -> NoReturn:
    """End the process with this code.

    After an answer everything was closed, and taking half a million objects of libraries apart would only cost time.
    After anything else the interpreter may still have something to clear away.
    """
    try:
        sys.stdout.flush()
    except OSError:  # the interpreter would complain of a reader that left
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    if code != Exit.ANSWERED:
        sys.exit(code)
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    os._exit(code)
