"""`traceanalyzer ranges`: time inside annotations and NVTX ranges."""

import click

from traceanalyzer.cli.ask import answer_question
from traceanalyzer.cli.options import Asked, question_options


@click.command("ranges")
@question_options(without=("warmup", "lane", "input_range", "user_code"))
def command(asked: Asked) -> None:
    """Host, busy and idle time of annotations and NVTX ranges.

    Busy is the union of the operations that were launched inside a range: by its thread, or by one that it waits for
    in a backward pass. Idle is the idle time of the devices that is charged to stacks with the range on them. Ranges
    nest, so the rows do not add up.

    \b
    Table: ranges.

    \b
    Examples:
      traceanalyzer ranges                       # the newest run of the store
      traceanalyzer ranges trace.json.gz         # straight from a file
      traceanalyzer ranges --rank 0 --top 0      # all ranges of one rank
    """
    answer_question(asked, lambda traces: traces.ranges(**asked.selection, top=asked.rows))
