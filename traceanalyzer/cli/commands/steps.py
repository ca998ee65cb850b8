"""`traceanalyzer steps`: the steps of the job, one by one."""

import click

from traceanalyzer.cli.ask import answer_question
from traceanalyzer.cli.options import Asked, question_options


@click.command("steps")
@question_options(without=("lane", "input_range", "user_code"))
def command(asked: Asked) -> None:
    """Duration, busy and idle time of each step.

    Start, end and duration are the host's mark of the step; busy, idle, compute and communication are of the work
    that was launched in it, on the device. Where work of neighbouring steps interleaves there, that is said: then a
    single device step says little. A first step whose beginning was not recorded is marked incomplete.

    \b
    Examples:
      traceanalyzer steps                        # the newest run of the store
      traceanalyzer steps trace.json.gz          # straight from a file
      traceanalyzer steps --step-range '^train_step'    # NVTX ranges of your own as steps
    """
    answer_question(asked, lambda traces: traces.steps(**asked.selection, top=asked.rows))
