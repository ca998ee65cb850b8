"""Progress by bytes on stderr, where a person is looking."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from traceanalyzer.cells import printable, shortened

Progress = Callable[[str, int, int], None]
"""Told the file that is being read, and the bytes done and to do over all files."""

_NAME_WIDTH = 40


@contextmanager
def progress_bar(quiet: bool = False) -> Iterator[Progress | None]:
    """A progress bar to feed; None where nobody would see it."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    bar = Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
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
