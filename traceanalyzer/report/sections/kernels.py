"""Which kernels take the time, and what limits them."""

from collections.abc import Iterator

from traceanalyzer.report.blocks import Block
from traceanalyzer.report.material import Material
from traceanalyzer.report.sections.section import Section, whole_answer


def blocks(material: Material) -> Iterator[Block]:
    """Kernels by family and one by one, copies; what is reached of the roofs; streams and launches."""
    yield from whole_answer(
        material, "kernels", tables=("kernels",), folded=("families", "limits", "operations", "short")
    )
    yield from whole_answer(
        material, "throughput", tables=("rollup", "utilization", "kernels"), folded=("operators", "peaks")
    )
    if material.has_timeline:
        yield from whole_answer(material, "launches", tables=(), folded=("launches", "queues"))


SECTION = Section(
    "kernels",
    "Kernels and what limits them",
    "Kernels",
    blocks,
    "No kernels: a timeline tells which take the time, and `ncu --set full` what limits them (traceanalyzer howto"
    " ncu).",
)
