"""`traceanalyzer sql`: the store in the user's own words."""

import click

from traceanalyzer.cli.ask import answer_question
from traceanalyzer.cli.options import Asked, question_options


@click.command("sql")
@click.argument("query", metavar="QUERY")
@question_options(without=("table",))
def command(asked: Asked, query: str) -> None:
    """Ask the store in SQL (DuckDB's); nothing is changed.

    The tables and their columns are described in docs/reference/schema.md. Names are text, times are integer
    nanoseconds on the file's own clock. Stored tables hold every run of the store.

    Results of the questions can be named like tables (docs/reference/results.md) and are worked out where they are:
    gap_pieces, gaps, causes, stacks, ledger, kernels and so on; gaps_devices, steps_steps where a stored table has the
    name. They are whole, of every run, unless --run, --rank, --device, --steps and so on select a part.

    \b
    Examples:
      traceanalyzer sql "SELECT source, path FROM captures"
      traceanalyzer sql "SELECT name, sum(end_ns - start_ns) AS ns FROM gpu_ops GROUP BY name ORDER BY ns DESC"
      traceanalyzer sql "SELECT * FROM quality" trace.json.gz --format json --top 0
      traceanalyzer sql "SELECT cause, sum(end_ns - start_ns) AS ns FROM gap_pieces GROUP BY cause" --rank 0
      traceanalyzer sql "SELECT * FROM gaps JOIN steps_steps USING (capture, rank, device, step)"
    """
    answer_question(asked, lambda traces: traces.sql(query, **asked.selection, top=asked.top))
