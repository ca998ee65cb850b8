"""Who holds the memory of the devices, and what grows."""

from collections.abc import Sequence

from traceanalyzer.report.blocks import Block
from traceanalyzer.report.material import Material
from traceanalyzer.report.sections.section import Section, whole_answer


def blocks(material: Material) -> Sequence[Block]:
    """The curve of each device, peaks, growth, and who holds the memory at the peak."""
    return list(
        whole_answer(material, "memory", tables=("memory", "growing", "peak"), folded=("growth",))
        if len(material.answer("memory").tables["memory"])
        else ()
    )


SECTION = Section(
    "memory",
    "Memory",
    "Memory",
    blocks,
    "No allocations were recorded: torch.profiler with profile_memory=True (and with_stack=True for whose they are)"
    " would.",
)
