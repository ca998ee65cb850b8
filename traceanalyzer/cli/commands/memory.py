"""`traceanalyzer memory`: who holds the memory of the devices, and what grows."""

import click

from traceanalyzer.cli.ask import answer_question
from traceanalyzer.cli.options import Asked, question_options


@click.command("memory")
@question_options(without=("lane", "input_range"))
def command(asked: Asked) -> None:
    """Memory of the devices: peak, what holds it, and what grows from step to step.

    Allocated is what the allocator of PyTorch has in use (torch.profiler with profile_memory=True), reserved what it
    took from the driver; fragmentation is the difference at the peak. nsys (--cuda-memory-usage=true) records what is
    taken from the driver only. What grows in every step, without warm-up, is a leak; memory that is nearly full and
    does not grow is none.

    \b
    Tables: curve (printed by csv and markdown; thinned by --top), peak (what holds the memory then, by operator and
    stack), growth (each step), growing (what steps allocate and keep), memory (each device).

    \b
    Examples:
      traceanalyzer memory                         # the newest run of the store
      traceanalyzer memory trace.json.gz           # straight from a file
      traceanalyzer memory --table peak --top 5    # the largest holders at the peak
      traceanalyzer memory --format csv --top 0    # the whole curve
    """
    answer_question(asked, lambda traces: traces.memory(**asked.selection, top=asked.rows))
