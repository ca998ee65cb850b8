"""`traceanalyzer steps`: the steps of the job, one by one."""

import click

from traceanalyzer.cli.ask import answer_question
from traceanalyzer.cli.options import Asked, question_options


@click.command("steps")
@question_options(without=("lane",))
def command(asked: Asked) -> None:
    """Duration, busy and idle time of each step, and pauses that recur.

    Start, end and duration are the host's mark of the step; busy, idle, compute and communication are of the work
    that was launched in it, on the device. Where work of neighbouring steps interleaves there, that is said: then a
    single device step says little. A first step whose beginning was not recorded is marked incomplete.

    An outlier is a device step longer than 1.5 x the median of those that count, or than the median by 6 standard
    deviations (from the median absolute deviation) and by 10 %. Where outliers are idle, and come every k-th step or
    often with the same blame, they are pauses: a checkpoint, an evaluation, logging, garbage collection. excess is by
    how much the steps of a pause are longer than median steps, cost its idle time per counted step.

    \b
    Tables: steps (printed by csv and markdown), pauses, pause_causes (the idle time of pauses by cause).

    \b
    Examples:
      traceanalyzer steps                        # the newest run of the store
      traceanalyzer steps trace.json.gz          # straight from a file
      traceanalyzer steps --table pauses         # what recurs in some steps
      traceanalyzer steps --step-range '^train_step'    # NVTX ranges of your own as steps
    """
    answer_question(asked, lambda traces: traces.steps(**asked.selection, top=asked.rows))
