"""`traceanalyzer scaling`: what more ranks bring."""

from dataclasses import replace
from pathlib import Path

import click

from traceanalyzer.cli.ask import answer_question, show
from traceanalyzer.cli.options import Asked, question_options
from traceanalyzer.errors import SourceError, UsageError


@click.command("scaling")
@question_options(without=("rank", "device", "lane", "user_code"), plus=("samples_per_step",), every_run=True)
def command(asked: Asked) -> None:
    """How well throughput grows with the ranks, and what is lost.

    Efficiency is the throughput of N ranks as a share of N x that of one rank; less than 80 % is a finding. Without
    one rank it is beside the fewest ranks that there are, per rank.

    From the runs of a store: each counts with its ranks and its median device step, that of the slowest rank. That
    tells how well a job scales where every rank does the same work in each run (weak scaling). What a step takes
    longer for is told by category of the ledger.

    Where every run has a training log that tells samples per second (traceanalyzer ingest train.csv --run NAME), these
    are compared instead. With --samples-per-step N a run counts N samples by its device step, or without one by the
    step time of its log; what a log tells itself comes first. A log tells its ranks in a column world_size; else the
    world of a trace of its run counts.

    From measured throughputs: a CSV file with the header ranks,throughput, and one row for each number of ranks.

    \b
    Tables: scaling (printed by csv and markdown), lost.

    \b
    Examples:
      traceanalyzer scaling throughput.csv       # from measured throughputs
      traceanalyzer scaling                      # all runs of the store
      traceanalyzer scaling --samples-per-step 1024      # samples per second, where the global batch is the same
      traceanalyzer scaling --table lost --format csv    # what a step takes longer for
    """
    file = _throughputs(asked)
    if file is None:
        answer_question(asked, lambda traces: traces.scaling(**asked.selection, top=asked.rows))
        return
    from traceanalyzer.traceset import scaling_of_file

    # No other question can be asked of such a file, so there is nothing to hint at.
    show(replace(asked, quiet=True), scaling_of_file(file))


def _throughputs(asked: Asked) -> Path | None:
    """The file of throughputs that was given, if one was."""
    if not asked.traces:
        return None
    from traceanalyzer.sources.throughputs import holds_throughputs

    files = [path for path in asked.traces if holds_throughputs(path) and not _is_read(path)]
    if not files:
        return None
    if len(asked.traces) > 1:
        raise UsageError(f"{files[0]}: give one file of throughputs, and nothing beside it")
    if asked.db is not None:
        raise UsageError("give either a file of throughputs or --db, not both")
    if chosen := [name for name, value in asked.selection.items() if value is not None]:
        option = chosen[0].replace("_", "-")
        raise UsageError(f"--{option}: a file of throughputs has nothing to select by it; leave it out")
    return files[0]


def _is_read(path: Path) -> bool:
    """Whether a file is one that can be ingested, such as a training log in CSV."""
    from traceanalyzer.ingestion import recognise
    from traceanalyzer.sources.files import TraceFile

    try:
        return recognise(TraceFile(path)) is not None
    except SourceError:
        return False
