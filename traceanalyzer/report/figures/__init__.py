"""Figures of answers: a module a topic, and which of them belong to which question."""

from collections.abc import Callable

from traceanalyzer.passes.answer import Answer
from traceanalyzer.report.blocks import Figure
from traceanalyzer.report.figures.composition import composition
from traceanalyzer.report.figures.idle import causes, icicle
from traceanalyzer.report.figures.kernels import families, roofline
from traceanalyzer.report.figures.ledger import by_rank
from traceanalyzer.report.figures.memory import memory_curve
from traceanalyzer.report.figures.operators import operators
from traceanalyzer.report.figures.ranks import bandwidth, excess_map, waits
from traceanalyzer.report.figures.samples import samples
from traceanalyzer.report.figures.steps import step_times

FIGURES: dict[str, tuple[Callable[[Answer], Figure | None], ...]] = {
    "checkup": (composition,),
    "ledger": (by_rank,),
    "gaps": (causes, icicle),
    "steps": (step_times,),
    "imbalance": (waits, excess_map),
    "collectives": (bandwidth,),
    "kernels": (families,),
    "throughput": (roofline,),
    "ops": (operators,),
    "memory": (memory_curve,),
    "metrics": (samples,),
}
"""A new figure is a function from the answer (None: nothing to draw) and one line here."""


def figures_of(answer: Answer) -> list[Figure]:
    """The figures of an answer."""
    return [figure for draw in FIGURES.get(answer.command, ()) if (figure := draw(answer)) is not None]
