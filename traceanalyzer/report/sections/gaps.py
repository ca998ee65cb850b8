"""Why the devices were idle, and in whose code."""

from collections.abc import Iterator

from traceanalyzer.report.blocks import Block, Commands
from traceanalyzer.report.material import Material
from traceanalyzer.report.sections.section import Section, whole_answer


def blocks(material: Material) -> Iterator[Block]:
    """Idle time by cause, stack and line of code, and the longest gaps."""
    found = list(
        whole_answer(
            material, "gaps", tables=("blames", "devices"), folded=("causes", "stacks", "gaps", "threads", "lock")
        )
    )
    yield from found
    if found:
        yield Commands(
            [
                (
                    material.command("export --perfetto timeline.json.gz"),
                    "all ranks on one clock with gaps, waits and steps, for Perfetto or chrome://tracing",
                ),
                (material.command("gaps --format tree"), "the stacks as a tree in a terminal"),
                (material.command("gaps --lane compute"), "when no compute kernel ran, also under copies"),
            ]
        )


SECTION = Section(
    "gaps",
    "Idle time",
    "Idle",
    blocks,
    "No timeline, so no gaps: `torch.profiler` with ProfilerActivity.CUDA and with_stack=True would tell whose code"
    " left the GPU idle (traceanalyzer howto torch).",
)
