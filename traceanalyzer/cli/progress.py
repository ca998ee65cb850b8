"""Progress on stderr, where a person is looking."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from traceanalyzer.cells import printable, shortened

Progress = Callable[[str, int, int], None]
"""Told what is being worked on, such as a file, and how much is done and to do in all: bytes, or parts."""

_NAME_WIDTH = 40


@contextmanager
def progress_bar(quiet: bool = False, *, bytes_of_files: bool = True) -> Iterator[Progress | None]:
    """A progress bar to feed, with bytes of files or with parts; None where nobody would see it."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    bar = Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn() if bytes_of_files else MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task("reading", total=None)

        def advance(path: str, done: int, total: int) -> None:
            name = escape(shortened(printable(Path(path).name), _NAME_WIDTH))
            bar.update(task, description=name, completed=done, total=total)

        yield advance
