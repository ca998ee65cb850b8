"""`traceanalyzer export`: tables as files for other programs, and one timeline of all ranks for viewers."""

from dataclasses import replace
from pathlib import Path

import click

from traceanalyzer.cli.ask import opened, show
from traceanalyzer.cli.options import PATH, Asked, question_options


@click.command("export")
@click.argument("target", type=PATH, required=False, metavar="[FOLDER|FILE]")
@click.option(
    "--perfetto",
    "timeline",
    type=PATH,
    metavar="FILE",
    help="Write one timeline of all ranks in place of tables: Chrome-trace JSON, gzipped if FILE ends in .gz.",
)
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
@question_options(without=("top", "form", "table", "output"), plus=("align",))
def command(
    asked: Asked,
    target: Path | None,
    timeline: Path | None,
    tables: tuple[str, ...],
    file_format: str | None,
    force: bool,
) -> None:
    """Write tables as Parquet or Arrow files, or one timeline of all ranks for Perfetto.

    FOLDER gets one file a table; FILE, which ends in .parquet or .arrow, gets the one table that --table names. Names
    that end in another format, such as .csv, are refused: `sql` prints CSV and JSON. Tables are those of
    docs/reference/schema.md, and results of the questions: gaps, causes, stacks, gap_pieces, ledger, kernels, or
    steps_steps and the like where a stored table has the name (docs/reference/results.md). --run, --rank, --source and
    --device pick the rows of stored tables; results follow every option. The stacks of stack_nodes are those of the
    whole store. Unit and meaning of each column are in the file. Each file is written whole or not at all; those that
    exist are replaced with --force only; links are followed, pipes and devices written to. Arrow needs pyarrow: pip
    install 'gpu-traceanalyzer[frames]'.

    --perfetto takes no FOLDER|FILE: all arguments are traces then. Its file has the recorded events and operations of
    the selected ranks on one clock (--align), and derived tracks: device steps, gaps with causes and stacks, waits and
    transfers of collectives with arrows to the rank that came last, counters. ui.perfetto.dev and chrome://tracing open
    it, and traceanalyzer reads it like a trace (docs/reference/timeline.md).

    \b
    Examples:
      traceanalyzer export tables/                          # every table of the newest run, as Parquet
      traceanalyzer export pieces.parquet --table gap_pieces --rank 0
      traceanalyzer export tables/ --table gpu_ops --table gaps --format arrow
      traceanalyzer export tables/ trace.json.gz            # straight from a file
      traceanalyzer export --perfetto timeline.json.gz      # all ranks on one clock, for ui.perfetto.dev
      traceanalyzer export --perfetto timeline.json.gz --steps 5-6 rank0.json.gz rank1.json.gz
    """
    if timeline is not None:
        if tables or file_format is not None:
            raise click.UsageError("--perfetto writes one timeline: --table and --format are about files of tables")
        asked = replace(asked, traces=asked.traces if target is None else (target, *asked.traces))
    elif target is None:
        raise click.UsageError("give FOLDER|FILE for tables, or --perfetto FILE for a timeline")
    with opened(asked, timeline or target) as traces:
        if timeline is not None:
            answer = traces.export_timeline(timeline, force=force, **asked.selection)
        elif target is not None:
            answer = traces.export(target, tables=tables, form=file_format, force=force, **asked.selection)
    show(asked, answer)
