"""`traceanalyzer kernels`: which kernels take the device's time, and what limits them."""

import click

from traceanalyzer.cli.ask import answer_question
from traceanalyzer.cli.options import Asked, question_options


@click.command("kernels")
@question_options(without=("lane", "input_range", "user_code"), plus=("peaks",))
def command(asked: Asked) -> None:
    """Which kernels take the time, what limits each, and how fast the copies are.

    Kernels of compute and communication with their calls, durations, most frequent geometry and stream, the largest
    total first, and as families: matmul, attention, elementwise and others. What limits a kernel is what ncu measured
    of launches with its name and geometry in the same run, else what nsys' GPU metrics were while it ran alone, else
    estimated from the shapes of its operators; class_source says which. gap_before is the time for which the device was
    idle directly before its calls.

    Shares are of the summed kernel time of a device, so they add up to 1 and say nothing of idle time. Durations are
    whole, cut only by --window; --steps goes by the step in which an operation was launched.

    \b
    Tables: kernels (printed by csv and markdown), families, limits (time by class), short (kernels under 10 us),
    operations (copies and memory sets by kind).

    \b
    Examples:
      traceanalyzer kernels                      # the newest run of the store
      traceanalyzer kernels trace.json.gz        # straight from a file
      traceanalyzer kernels run.sqlite k.csv      # with launches that ncu profiled
      traceanalyzer kernels --steps 3-7 --top 5  # the five largest of some steps
      traceanalyzer kernels --table short        # what graphs or fusion could gain
      traceanalyzer kernels --table operations   # copies and memory sets
    """
    answer_question(asked, lambda traces: traces.kernels(**asked.selection, top=asked.rows))
