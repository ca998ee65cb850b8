"""`traceanalyzer export`: tables as files for other programs."""

from pathlib import Path

import click

from traceanalyzer.cli.ask import opened, show
from traceanalyzer.cli.options import PATH, Asked, question_options


@click.command("export")
@click.argument("target", type=PATH, metavar="FOLDER|FILE")
@click.option(
    "--table",
    "tables",
    multiple=True,
    metavar="NAME",
    help="A table or a result to write; may be given several times.  [default: all public tables]",
)
@click.option(
    "--format",
    "file_format",
    type=click.Choice(("parquet", "arrow")),
    help="Format of the files.  [default: that of FILE's name, else parquet]",
)
@click.option("--force", is_flag=True, help="Replace files that exist.")
@question_options(without=("top", "form", "table", "output"))
def command(asked: Asked, target: Path, tables: tuple[str, ...], file_format: str | None, force: bool) -> None:
    """Write tables as Parquet or Arrow files, with names as text.

    FOLDER gets one file a table; FILE, which ends in .parquet or .arrow, gets the one table that --table names. Names
    that end in another format, such as .csv, are refused: `sql` prints CSV and JSON. Tables are those of
    docs/reference/schema.md, and results of the questions: gaps, causes, stacks, gap_pieces, ledger, kernels, or
    steps_steps and the like where a stored table has the name (docs/reference/results.md). --run, --rank, --source and
    --device pick the rows of stored tables; results follow every option. The stacks of stack_nodes are those of the
    whole store. Unit and meaning of each column are in the file. Each file is written whole or not at all; those that
    exist are replaced with --force only. Arrow needs pyarrow: pip install 'gpu-traceanalyzer[frames]'.

    \b
    Examples:
      traceanalyzer export tables/                          # every table of the newest run, as Parquet
      traceanalyzer export pieces.parquet --table gap_pieces --rank 0
      traceanalyzer export tables/ --table gpu_ops --table gaps --format arrow
      traceanalyzer export tables/ trace.json.gz            # straight from a file
    """
    with opened(asked) as traces:
        answer = traces.export(target, tables=tables, form=file_format, force=force, **asked.selection)
    show(asked, answer)
