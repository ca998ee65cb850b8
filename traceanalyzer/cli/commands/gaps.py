"""`traceanalyzer gaps`: why the GPUs were idle."""

from typing import TYPE_CHECKING

import click

from traceanalyzer.cli.ask import opened, show
from traceanalyzer.cli.options import Asked, question_options
from traceanalyzer.cli.render.output import FORMATS_OF_STACKS

if TYPE_CHECKING:
    from traceanalyzer.passes.answer import Answer

BUSY_DEVICE_IDLE = 0.02
"""Share of idle up to which a device counts as busy, so that what its copies hide is worth a look."""


@click.command("gaps")
@question_options(plus=("under", "by"))
def command(asked: Asked) -> None:
    """Why the GPUs were idle, down to the line of Python.

    Each gap of a device is cut into pieces, and each piece is charged to what the thread was doing that launched the
    next operation: the cause, and the whole stack. Causes and stacks add up to the idle time, to the nanosecond.

    \b
    Columns: blame, the innermost frame of your own code on the stack; gain, what a step gains at most
    if that idle time goes away (in counted steps, without warm-up); share, of the device's idle time;
    n_pieces, parts of gaps; cause, as `docs/reference/causes.md` defines it.

    \b
    Tables: devices, causes, stacks (printed by csv and markdown), gaps, blames, threads, lock,
    by (with --by).

    \b
    Examples:
      traceanalyzer gaps                         # the newest run of the store
      traceanalyzer gaps trace.json.gz           # straight from a file
      traceanalyzer gaps --rank 1 --steps 3-7    # one rank, some steps
      traceanalyzer gaps --lane compute          # when no compute kernel ran
      traceanalyzer gaps --table gaps --top 10   # the ten longest gaps
      traceanalyzer gaps --table blames          # lines of your code, with what each costs a step
      traceanalyzer gaps --by step               # or cause, stack, function, range, thread, rank
      traceanalyzer gaps --under 'forward|loss'  # only what has such a frame on its stack
      traceanalyzer gaps --format tree           # the stacks as a tree
      traceanalyzer gaps --format folded -o idle.folded   # for flame-graph tools
      traceanalyzer gaps --format json --top 0   # everything, for a program
    """
    beneath = None
    every_stack = asked.form in FORMATS_OF_STACKS
    with opened(asked) as traces:
        answer = traces.gaps(**asked.selection, top=0 if every_stack else asked.rows)
        if asked.form == "table" and asked.table is None and asked.selection["lane"] == "device" and _hides(answer):
            beneath = traces.gaps(**asked.selection | {"lane": "compute"}, top=asked.rows)
    show(asked, answer, beneath)


def _hides(answer: "Answer") -> bool:
    """Whether a device is hardly ever idle but copies, so that compute kernels may still be waiting."""
    return any(
        row["copy_ns"] and row["idle_ns"] <= BUSY_DEVICE_IDLE * row["span_ns"] for row in answer.table("devices").rows()
    )
