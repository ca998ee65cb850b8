"""Where every nanosecond of every device went."""

from collections.abc import Iterator

from traceanalyzer.report.blocks import Block
from traceanalyzer.report.material import Material
from traceanalyzer.report.sections.section import Section, whole_answer


def blocks(material: Material) -> Iterator[Block]:
    """The few parts of a step, and the ledger by device."""
    if material.has_timeline:
        yield from whole_answer(material, "summary")
        yield from whole_answer(material, "ledger", folded=("totals",))


SECTION = Section(
    "ledger",
    "Where the time went",
    "Time",
    blocks,
    "No operations of a device on a timeline: `torch.profiler` with ProfilerActivity.CUDA, or `nsys profile"
    " --trace=cuda,nvtx`, would record them (traceanalyzer howto torch).",
)
