"""`traceanalyzer ops`: what operators take on the host and on the devices."""

import click

from traceanalyzer.cli.ask import answer_question
from traceanalyzer.cli.options import Asked, question_options


@click.command("ops")
@question_options(without=("lane", "input_range", "user_code"))
@click.option(
    "--by",
    type=click.Choice(("shape", "module")),
    help="Operators by the shapes of their inputs too, or the modules (nn.Module) that were called.",
)
def command(asked: Asked, by: str | None) -> None:
    """Operators: self and total time, on the host and on the devices.

    Total is the time in which a call of the operator is open on its thread, with what it calls, and the durations of
    what was launched meanwhile; an operator that calls itself counts once. Self is the same for the time in which it is
    the innermost operator, so host_self of all rows adds up to the time that threads spend in operators. Operators of
    a backward pass count on the threads of autograd that run them, for no module of the forward pass.

    Of nsys, ranges named like operators (emit_nvtx) stand for them. Shapes need record_shapes=True of torch.profiler,
    modules with_stack=True.

    \b
    Tables: ops (printed by csv and markdown), by_shape, by_module.

    \b
    Examples:
      traceanalyzer ops                          # the newest run of the store
      traceanalyzer ops trace.json.gz            # straight from a file
      traceanalyzer ops --by shape --steps 3-7   # by shapes, in some steps
      traceanalyzer ops --by module --top 0      # every module
    """
    answer_question(asked, lambda traces: traces.ops(**asked.selection, by=by, top=asked.rows))
