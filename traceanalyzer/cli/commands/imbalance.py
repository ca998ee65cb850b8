"""`traceanalyzer imbalance`: which rank is late, and why."""

import click

from traceanalyzer.cli.ask import answer_question
from traceanalyzer.cli.options import Asked, question_options


@click.command("imbalance")
@question_options(without=("lane",), plus=("align",))
def command(asked: Asked) -> None:
    """Which rank is late, why, and what the job would gain without it.

    The own time of a rank in a step is the step without communication that nothing hides; its excess is that less the
    median of the others. A rank is a straggler if its excess stands out: in every step (systematic), every k-th
    (periodic) or some (occasional). The reason is what it does more of: idle time by cause and stack, slower or more
    kernels, copies.

    \b
    Tables: ranks (printed by csv and markdown), stragglers, efficiency, excess (rank by step).

    \b
    Examples:
      traceanalyzer imbalance rank*.json.gz      # the traces of one job
      traceanalyzer imbalance                    # the newest run of the store
      traceanalyzer imbalance --table excess --format csv   # every rank in every step
    """
    answer_question(asked, lambda traces: traces.imbalance(**asked.selection, top=asked.rows))
