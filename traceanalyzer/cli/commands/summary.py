"""`traceanalyzer summary`: what a step consists of."""

import click

from traceanalyzer.cli.ask import answer_question
from traceanalyzer.cli.options import Asked, question_options


@click.command("summary")
@question_options(without=("lane",), plus=("align", "split"))
def command(asked: Asked) -> None:
    """What a step consists of, in few parts.

    The categories of the ledger, grouped as the check-up gives its verdicts: compute, communication that nothing
    hides, copies, and idle time by groups of causes. The parts of a device add up to its device steps; without steps
    to its span. per_step is of the steps that count: without warm-up, and a first one whose beginning was not recorded.

    \b
    idle:input          input_wait
    idle:host           python, range, os_blocked, gil_wait, garbage_collection, outside_events
    idle:launch         framework, api_call, launch_call, launch_latency
    idle:sync           sync, and refill where more than 2 calls a step block
    idle:host_copy, allocation, compile_or_load, host_communication, profiler, unattributed: one cause each
    idle:dependency     device_wait, device_gap

    With --as tensorboard the parts are those that TensorBoard's profiler plugin showed: Kernel, Memcpy, Memset,
    Communication, Runtime, DataLoader, CPU Exec, Other; each instant is of the first that fits. They are of the
    plugin's steps, which last until the device work is done that was launched in them, and of all devices of a rank
    together.

    \b
    Examples:
      traceanalyzer summary                      # the newest run of the store
      traceanalyzer summary trace.json.gz        # straight from a file
      traceanalyzer summary --steps 3-7          # some steps
      traceanalyzer summary --as tensorboard     # the parts that TensorBoard showed
    """
    answer_question(asked, lambda traces: traces.summary(**asked.selection, top=asked.rows))
