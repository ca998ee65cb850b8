"""`traceanalyzer ingest`: raw files into the store."""

from pathlib import Path

import click

from traceanalyzer.cli.ask import show
from traceanalyzer.cli.options import PATH, Asked, store_options
from traceanalyzer.cli.progress import progress_bar


@click.command("ingest")
@click.argument("paths", nargs=-1, required=True, type=PATH, metavar="PATH...")
@click.option(
    "--run", metavar="NAME", help="Name of the run; of an existing one, to extend it.  [default: the file or folder]"
)
@click.option(
    "--keep-environment", is_flag=True, help="Keep environment variables and home folders as the traces have them."
)
@store_options(without=("top", "table"))
def command(asked: Asked, paths: tuple[Path, ...], run: str | None, keep_environment: bool) -> None:
    """Read trace files into the store.

    PATH is a file, a folder or a pattern; every file may be gzipped. The files of one call are one run, with one file
    for each rank and tool. Each file is stored whole or not at all, and a file that is already there is skipped.

    \b
    Examples:
      traceanalyzer ingest run.sqlite                       # an nsys export
      traceanalyzer ingest traces/                          # all ranks of a job, as one run
      traceanalyzer ingest 'traces/rank*.json.gz' --run try2
      traceanalyzer ingest --db job.duckdb trace.json.gz
    """
    from traceanalyzer.ingestion import ingest
    from traceanalyzer.store.location import default_store

    with progress_bar(asked.quiet) as progress:
        answer = ingest(
            paths, asked.db or default_store(), run=run, keep_environment=keep_environment, progress=progress
        )
    show(asked, answer)
