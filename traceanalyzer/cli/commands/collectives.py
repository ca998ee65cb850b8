"""`traceanalyzer collectives`: who waits for whom."""

import click

from traceanalyzer.cli.ask import answer_question
from traceanalyzer.cli.options import Asked, question_options


@click.command("collectives")
@question_options(without=("warmup", "lane", "input_range", "user_code", "step_range"), plus=("align",))
def command(asked: Asked) -> None:
    """Who waits for whom in collectives, and how fast the transfers are.

    The operations of several ranks that are one collective are found by their order on their group. The ends of those
    in which all ranks wait for all put the clocks of the ranks on one; then each operation is split into waiting for
    another rank, and transfer. A wait that is shorter than what clocks may be off is unresolved, and no wait.

    \b
    Tables: collectives (printed by csv and markdown), clocks, bandwidth, links
    (sends between pairs of ranks).

    \b
    Examples:
      traceanalyzer collectives rank*.json.gz             # the traces of one job
      traceanalyzer collectives --steps 3-7               # some steps of the newest run
      traceanalyzer collectives --rank 0 --top 5          # the longest waits of one rank
      traceanalyzer collectives --table bandwidth         # by group, kind and size
      traceanalyzer collectives --align none              # as if all clocks were one
      traceanalyzer collectives --format json --top 0     # everything, for a program
    """
    answer_question(asked, lambda traces: traces.collectives(**asked.selection, top=asked.rows))
