"""`traceanalyzer throughput`: what limits the profiled kernels."""

import click

from traceanalyzer.cli.ask import answer_question
from traceanalyzer.cli.options import Asked, question_options


@click.command("throughput")
@question_options(without=("lane", "input_range", "user_code"), plus=("peaks",))
def command(asked: Asked) -> None:
    """What limits each kernel that ncu profiled, and what it reaches of its device.

    From what ncu prints: ncu --import REPORT --csv --page raw. The class is the result of NVIDIA's SpeedOfLight rule,
    taken from the file where it stands there, else worked out from the same metrics. A launch that several pages of one
    report hold counts once. Of files that hold averages over launches only there is just the rollup.

    \b
    Tables: kernels (printed by csv and markdown), rollup.

    \b
    Examples:
      traceanalyzer throughput kernels.csv       # straight from a file
      traceanalyzer throughput                   # the newest run of the store
      traceanalyzer throughput --table rollup    # time and class of each kernel
    """
    answer_question(asked, lambda traces: traces.throughput(**asked.selection, top=asked.rows))
