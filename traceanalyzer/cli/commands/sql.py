"""`traceanalyzer sql`: the store in the user's own words."""

import click

from traceanalyzer.cli.ask import answer_question
from traceanalyzer.cli.options import Asked, store_options


@click.command("sql")
@click.argument("query", metavar="QUERY")
@store_options(without=("table",))
def command(asked: Asked, query: str) -> None:
    """Ask the store in SQL (DuckDB's); nothing is changed.

    The tables and their columns are described in docs/reference/schema.md. Names are text, times are integer
    nanoseconds on the file's own clock.

    \b
    Examples:
      traceanalyzer sql "SELECT source, path FROM captures"
      traceanalyzer sql "SELECT name, sum(end_ns - start_ns) AS ns FROM gpu_ops GROUP BY name ORDER BY ns DESC"
      traceanalyzer sql "SELECT * FROM quality" --format json --top 0
    """
    answer_question(asked, lambda traces: traces.sql(query, top=asked.top))
