"""`traceanalyzer throughput`: what kernels reach of their device, and what limits them."""

import click

from traceanalyzer.cli.ask import answer_question
from traceanalyzer.cli.options import Asked, question_options


@click.command("throughput")
@question_options(without=("lane", "input_range", "user_code"), plus=("peaks",))
def command(asked: Asked) -> None:
    """What kernels reach of their device and what limits them: as ncu measured, or estimated from shapes.

    Of launches that ncu profiled (ncu --import REPORT --csv --page raw): sol_class is the result of NVIDIA's
    SpeedOfLight rule, taken from the file where it stands there, else worked out from the same metrics; class and
    reason say which memory, or why a kernel waits; roof_share is where a launch stands under its roofline. A launch
    that several pages of one report hold counts once. Of files that hold averages over launches only there is just the
    rollup.

    Of torch.profiler traces with shapes: operations and compulsory bytes of each operator against the time of its
    kernels and the peaks of the device, all of it estimated, and the model FLOP utilisation (MFU) of the steps. Where a
    run has a timeline and a profile, a finding says what share of the kernel time the profile covers.

    \b
    Tables: kernels (printed by csv and markdown; without profiled launches operators is), rollup, operators,
    utilization, peaks.

    \b
    Examples:
      traceanalyzer throughput kernels.csv       # launches that ncu profiled
      traceanalyzer throughput trace.json.gz     # operators and MFU, estimated
      traceanalyzer throughput --table rollup    # time and class of each profiled kernel
      traceanalyzer throughput --peaks gpu.toml  # peaks of a GPU that is not known (howto peaks)
    """
    answer_question(asked, lambda traces: traces.throughput(**asked.selection, top=asked.rows))
