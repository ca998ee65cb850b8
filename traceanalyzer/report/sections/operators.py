"""Which operators and annotated ranges take the time."""

from collections.abc import Iterator

from traceanalyzer.report.blocks import Block
from traceanalyzer.report.material import Material
from traceanalyzer.report.sections.section import Section, whole_answer


def blocks(material: Material) -> Iterator[Block]:
    """Operators, by name and by shape or module on demand, and ranges."""
    yield from whole_answer(material, "ops", folded=("ops", "by_shape", "by_module"))
    yield from whole_answer(material, "ranges", folded=("ranges",))


SECTION = Section(
    "operators",
    "Operators and ranges",
    "Operators",
    blocks,
    "No operators or ranges: torch.profiler with ProfilerActivity.CPU records operators (record_shapes=True for their"
    " shapes), nsys those of emit_nvtx and your own NVTX ranges.",
)
