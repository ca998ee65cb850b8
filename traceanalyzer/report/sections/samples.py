"""What GPU metrics and telemetry say beside the timeline."""

from collections.abc import Iterator

from traceanalyzer.report.blocks import Block
from traceanalyzer.report.material import Material
from traceanalyzer.report.sections.section import Section, whole_answer

_TELEMETRY = ("telemetry", "patterns", "throttling", "errors", "processes", "alignment")


def blocks(material: Material) -> Iterator[Block]:
    """Readings, telemetry, throttling and errors, and each metric over busy time and gaps."""
    yield from whole_answer(material, "metrics", tables=("readings", *_TELEMETRY), folded=("rollup", "by_step"))


SECTION = Section(
    "metrics",
    "GPU metrics and telemetry",
    "Metrics",
    blocks,
    "No samples: `nsys profile --gpu-metrics-devices=all` samples SMs, tensor cores and DRAM; `nvidia-smi dmon -s"
    " pucvmet -d 1 -o DT > dmon.log` or DCGM, given beside the trace, tell clocks, power and errors.",
)
