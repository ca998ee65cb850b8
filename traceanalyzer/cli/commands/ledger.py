"""`traceanalyzer ledger`: every nanosecond once."""

import click

from traceanalyzer.cli.ask import answer_question
from traceanalyzer.cli.options import Asked, question_options


@click.command("ledger")
@question_options(without=("lane",), plus=("align",))
def command(asked: Asked) -> None:
    """Every nanosecond of every device in exactly one category.

    Compute goes before communication, communication before copies; what is left is idle, by cause. The categories add
    up to the span of each device, in each step and in all.

    \b
    Examples:
      traceanalyzer ledger                       # the newest run of the store
      traceanalyzer ledger trace.json.gz         # straight from a file
      traceanalyzer ledger --format csv --top 0 -o ledger.csv
    """
    answer_question(asked, lambda traces: traces.ledger(**asked.selection, top=asked.rows))
