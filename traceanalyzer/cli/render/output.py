"""Where answers go: the terminal, a pipe, or a file that is replaced as a whole."""

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceanalyzer.cells import printable, printable_lines
from traceanalyzer.files import write_whole

if TYPE_CHECKING:
    from traceanalyzer.passes.answer import Answer

FORMATS = ("table", "json", "csv", "markdown")
FORMATS_OF_STACKS = ("folded", "tree")
"""Formats of questions that have stacks."""
WIDTH_OF_PIPE = 120


def terminal_width() -> int:
    """Columns of the terminal; `$COLUMNS` goes before; of a pipe or file, 120."""
    return shutil.get_terminal_size((WIDTH_OF_PIPE, 24)).columns


def is_read_by_people() -> bool:
    """Whether lines should fit: stdout is a terminal, or `$COLUMNS` says how wide one is."""
    return sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()


def rendered(
    answer: "Answer", form: str, top: int = 20, table: str | None = None, *, hints: bool = False, inputs: str = ""
) -> str:
    """The answer in one of `FORMATS` or `FORMATS_OF_STACKS`. Raises `UsageError` where it has no such table."""
    if table is not None:
        answer.table(table)
    if form == "json":
        from traceanalyzer.views.machine import as_json

        return as_json(answer, top)
    if form == "csv":
        from traceanalyzer.views.machine import as_csv

        return as_csv(answer, top, table)
    if form in FORMATS_OF_STACKS:
        from traceanalyzer.cli.render.stacks import as_folded, as_tree

        return as_folded(answer) if form == "folded" else as_tree(answer, terminal_width())
    if form == "markdown":
        from traceanalyzer.views.markdown import as_markdown

        return as_markdown(answer, top, table)
    from traceanalyzer.cli.render.table import as_terminal

    width = terminal_width()
    return as_terminal(answer, top, table, width, hints=hints, inputs=inputs, wrap=is_read_by_people())


def deliver(text: str, target: Path | None) -> None:
    """Write text to a file, or to stdout: there it is bytes of UTF-8 for programs, and harmless on a terminal."""
    if target is not None:
        with said_of(target):
            write_whole(target, text.encode("utf-8", "backslashreplace"))
    elif sys.stdout.isatty():
        safe = printable_lines(text)
        click.echo(safe.encode(sys.stdout.encoding or "utf-8", "backslashreplace"), nl=False)
    else:
        click.echo(text.encode("utf-8", "backslashreplace"), nl=False)


@contextmanager
def said_of(target: Path) -> Iterator[None]:
    """Errors of the system while a file is written, as errors that name it."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, f"cannot be written ({error.strerror or error})", str(target)) from error


def warn(warnings: Sequence[str]) -> None:
    """Print warnings to stderr, one line each, equal ones once."""
    for text in dict.fromkeys(warnings):
        click.echo(f"warning: {printable(' '.join(text.split()))}", err=True)
