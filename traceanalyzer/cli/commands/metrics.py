"""`traceanalyzer metrics`: what GPUs were sampled at."""

import click

from traceanalyzer.cli.ask import answer_question
from traceanalyzer.cli.options import Asked, question_options


@click.command("metrics")
@question_options(without=("lane", "warmup", "input_range", "user_code"), plus=("metric",))
def command(asked: Asked) -> None:
    """What GPUs were sampled at: while busy, in gaps, in each step and range; and what telemetry says of them.

    Samples of nsys (--gpu-metrics-devices): multiprocessors active, instruction issue, tensor pipe, reading and writing
    of DRAM, PCIe, NVLink, clocks; and of NICs. A sample stands from its instant to the next one. Means are over the
    samples of which nine tenths or more lie inside of what they speak of; n_samples and covered_ns say how much that
    is. Readings say what the metrics mean together.

    Of telemetry (nvidia-smi, DCGM): each device under one name a metric whatever the source calls it; whether its use
    is pulsed (period and duty), steady or low; why clocks were not higher; errors of the device; processes on it; and
    whether a trace of the same run tells the same story.

    \b
    Tables: metrics (every sample; printed by csv and markdown), rollup, by_step, by_range, readings; of telemetry
    telemetry, patterns, throttling, errors, processes, alignment.

    \b
    Examples:
      traceanalyzer metrics                             # the newest run of the store
      traceanalyzer metrics run.sqlite --metric DRAM    # some metrics only
      traceanalyzer metrics dmon.log trace.json.gz      # telemetry beside a trace
      traceanalyzer metrics --table by_step --metric 'SMs Active'
      traceanalyzer metrics --format csv --top 0 -o samples.csv
    """
    answer_question(asked, lambda traces: traces.metrics(**asked.selection, top=asked.rows))
