"""`traceanalyzer launches`: how far the host runs ahead of the device."""

import click

from traceanalyzer.cli.ask import answer_question
from traceanalyzer.cli.options import Asked, question_options


@click.command("launches")
@question_options(without=("lane", "input_range", "user_code"))
def command(asked: Asked) -> None:
    """How long launches take to start, and how many wait in the queue.

    The delay of a launch is the start of its first operation minus the end of its call; it may be negative, for an
    operation may start before its call returns. A launch is queued from the start of its call to the start of its
    first operation, so that a graph counts once: the queue depth is how many are, seen by the launch calls and over the
    span. A depth of 0 most of the time means that the host does not keep up; long delays over a deep queue only say
    that it runs ahead. While operations run whose launch is not in the file, the depth is unknown.

    \b
    Tables: launches (printed by csv and markdown), queues, depth.

    \b
    Examples:
      traceanalyzer launches                     # the newest run of the store
      traceanalyzer launches trace.json.gz       # straight from a file
      traceanalyzer launches --table depth       # time and launches by queue depth
    """
    answer_question(asked, lambda traces: traces.launches(**asked.selection, top=asked.rows))
