"""What a kernel can be limited by, and the sentence that says why."""

from dataclasses import dataclass
from enum import StrEnum


class Limit(StrEnum):
    """What limits a kernel."""

    COMPUTE_BOUND = "compute_bound"
    MEMORY_BOUND = "memory_bound"
    LATENCY_BOUND = "latency_bound"
    BALANCED = "balanced"


class LimitSource(StrEnum):
    """What a limit was learned from, the best first."""

    NCU = "ncu"
    GPU_METRICS = "gpu_metrics"
    ESTIMATED = "estimated"


@dataclass(frozen=True, slots=True)
class Limited:
    """What limits a kernel, or None, and why: metric and threshold in a sentence."""

    limit: Limit | None
    reason: str
