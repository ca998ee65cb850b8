"""What all questions have in common: open the store or read the files, ask, print."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from traceanalyzer.cli.options import Asked
from traceanalyzer.cli.progress import progress_bar
from traceanalyzer.cli.render.output import deliver, rendered, warn
from traceanalyzer.errors import UsageError

if TYPE_CHECKING:
    from traceanalyzer.passes.answer import Answer
    from traceanalyzer.traceset import TraceSet


@contextmanager
def opened(asked: Asked, target: Path | None = None) -> "Iterator[TraceSet]":
    """The store that was named, or a cached one of the raw files that were given.

    Raises `UsageError` where what is asked is to be written over these: to `target`, or where the options say.
    """
    refuse_to_write_over_inputs(asked, target or asked.output)
    # The engine is imported here, so that help and usage errors do without it.
    from traceanalyzer.traceset import TraceSet
    from traceanalyzer.traceset import open as open_store

    if not asked.traces:
        with open_store(asked.db) as traces:
            yield traces
        return
    if asked.db is not None:
        raise UsageError("give either trace files or --db, not both")
    with progress_bar(asked.quiet) as progress:
        read = TraceSet.of_files(asked.traces, progress=progress)
    with read as traces:
        yield traces


def refuse_to_write_over_inputs(asked: Asked, target: Path | None) -> None:
    """Raises `UsageError` where a file that is to be written is the store or one of the traces."""
    if target is None or not target.is_file():
        return
    from traceanalyzer.store.location import default_store

    read = [asked.db or default_store()]
    if asked.traces:
        from traceanalyzer.ingestion import find_files

        read = [found.file for found in find_files(asked.traces)]
    if any(file.exists() and file.samefile(target) for file in read):
        what = "a trace that is read" if asked.traces else "the store"
        raise UsageError(f"{target}: is {what}; give another name for what is written")


def answer_question(asked: Asked, question: "Callable[[TraceSet], Answer]") -> None:
    """Ask one question and print its answer."""
    with opened(asked) as traces:
        answer = question(traces)
    show(asked, answer)


def show(asked: Asked, answer: "Answer", beneath: "Answer | None" = None) -> None:
    """Print an answer in the form that was asked for, and a second one beneath it.

    Warnings go to stderr, unless they are inside of the answer.
    """
    answers = [answer] if beneath is None else [answer, beneath]
    hinted = None if asked.quiet else answers[-1]
    texts = [
        rendered(each, asked.form, asked.top, asked.table, hints=each is hinted, inputs=asked.inputs)
        for each in answers
    ]
    if asked.form != "json":
        warn([text for each in answers for text in each.warnings])
    deliver("\n".join(texts), asked.output)
