"""Which ranks wait for which, why, and how fast they communicate."""

from collections.abc import Iterator

from traceanalyzer.report.blocks import Block
from traceanalyzer.report.material import Material
from traceanalyzer.report.sections.section import Section, whole_answer


def blocks(material: Material) -> Iterator[Block]:
    """Ranks, stragglers and efficiency; collectives, clocks and bandwidth."""
    if not len(material.answer("collectives").tables["collectives"]):
        return
    if len(material.ranks) > 1:
        yield from whole_answer(material, "imbalance", tables=("efficiency", "stragglers", "ranks"), folded=("excess",))
    yield from whole_answer(material, "collectives", folded=("clocks", "bandwidth", "collectives", "links"))


SECTION = Section(
    "ranks",
    "Ranks and collectives",
    "Ranks",
    blocks,
    "No collectives between ranks: give the traces of all ranks of a job at once, such as `traceanalyzer report"
    " rank*.json.gz`.",
)
