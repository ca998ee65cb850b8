"""`traceanalyzer info`: what was captured, and what it can answer."""

import click

from traceanalyzer.cli.ask import answer_question
from traceanalyzer.cli.options import Asked, question_options


@click.command("info")
@question_options(without=("steps", "window", "lane", "warmup", "step_range", "input_range", "user_code"))
def command(asked: Asked) -> None:
    """What was captured, and which questions it can answer.

    Lists the captures and their devices, says for each question whether these traces can answer it and why not, and
    what was odd, dropped or repaired while they were read.

    \b
    Examples:
      traceanalyzer info                         # the newest run of the store
      traceanalyzer info --run all               # every run of the store
      traceanalyzer info trace.json.gz           # straight from a file
    """
    answer_question(asked, lambda traces: traces.info(**asked.selection, top=asked.rows))
