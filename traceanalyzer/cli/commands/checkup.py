"""`traceanalyzer checkup`: what limits the job, what it costs, what to change first."""

import click

from traceanalyzer.cli.ask import answer_question
from traceanalyzer.cli.options import Asked, question_options


@click.command("checkup")
@question_options(without=("lane",), plus=("align", "peaks"))
@click.option(
    "--lang", type=click.Choice(("en", "zh")), default="en", show_default=True, help="Language of the verdicts."
)
@click.option(
    "--workers",
    type=click.IntRange(min=0),
    metavar="N",
    help="num_workers of the DataLoaders of each rank.  [default: the workers that were recorded]",
)
@click.option(
    "--cpus",
    type=click.IntRange(min=1),
    metavar="N",
    help="Cores of the host that the job may use: its quota.  [default: the cores that a file tells]",
)
def command(asked: Asked, lang: str, workers: int | None, cpus: int | None) -> None:
    """What limits the job, what it costs a step, and what to change first.

    Asks all other questions, and says what follows: one verdict an item, the costliest first, each with its cost from
    the ledger, the figures behind it and the commands that show them, the cheapest experiment that would refute it,
    and what to change: settings first, then the loop, then rewrites. Change one thing at a time, and measure again.

    \b
    Tables: verdicts (printed by csv and markdown), next (which capture would answer what is not known),
    environment, charges (the ledger of the counted steps, cut by verdict).

    \b
    Examples:
      traceanalyzer checkup trace.json.gz          # a verdict from a file, nothing else needed
      traceanalyzer checkup rank*.json.gz dmon.log # all ranks of a job, and telemetry beside
      traceanalyzer checkup --workers 8 --cpus 32  # loader workers of each rank against the cores of the job
      traceanalyzer checkup --lang zh              # the newest run of the store, in Chinese
      traceanalyzer checkup --table charges        # what each verdict is charged with
      traceanalyzer checkup --format json          # everything, for a program
    """
    host = {"workers": workers, "cpus": cpus}
    answer_question(asked, lambda traces: traces.checkup(**asked.selection, lang=lang, inputs=asked.inputs, **host))
