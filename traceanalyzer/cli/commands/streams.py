"""`traceanalyzer streams`: what runs at the same time."""

import click

from traceanalyzer.cli.ask import answer_question
from traceanalyzer.cli.options import Asked, question_options


@click.command("streams")
@question_options(without=("lane", "input_range", "user_code"))
def command(asked: Asked) -> None:
    """How busy the streams are, and what runs at the same time.

    The time of each stream is the union of its operations. Pairs of the 16 busiest streams of a device are compared,
    and the time with exactly 1, 2, 3 ... operations at once adds up to the device's busy time.

    \b
    Tables: streams (printed by csv and markdown), overlap, concurrency.

    \b
    Examples:
      traceanalyzer streams                      # the newest run of the store
      traceanalyzer streams trace.json.gz        # straight from a file
      traceanalyzer streams --table overlap      # which streams run at the same time
    """
    answer_question(asked, lambda traces: traces.streams(**asked.selection, top=asked.rows))
