"""What a kernel can be limited by, and the sentence that says why."""

from dataclasses import dataclass
from enum import StrEnum

from traceanalyzer.passes.limits.sol import APART_PCT, HIGH_PCT, LOW_PCT

SHORT_NS = 10_000
"""A kernel that is shorter takes about as long to launch, to start and to end as to work."""
LEAST_TENSOR_PCT = 1.0
"""Activity of the tensor pipe from which on a kernel is said to use it."""
COMMUNICATION_REASON = "communication: links and other ranks limit it, which collectives tells"


class Limit(StrEnum):
    """What limits a kernel."""

    COMPUTE_BOUND = "compute_bound"
    MEMORY_BOUND = "memory_bound"
    LATENCY_BOUND = "latency_bound"
    BALANCED = "balanced"

    @property
    def words(self) -> str:
        """It as sentences spell it."""
        return self.value.replace("_", "-")


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


def by_use(compute_pct: float, memory_pct: float, compute: str, memory: str) -> Limited:
    """What limits a kernel that uses so much of two units, by the thresholds of NVIDIA's SpeedOfLight rule.

    `compute` and `memory` are the names of what was measured. Unlike NVIDIA's rule, which goes by the grid there, it
    says latency where both are low.
    """
    units = (f"{compute} {compute_pct:.0f} %", f"{memory} {memory_pct:.0f} %")
    seen = " and ".join(units if compute_pct >= memory_pct else units[::-1])
    by = Limit.COMPUTE_BOUND if compute_pct >= memory_pct else Limit.MEMORY_BOUND
    if max(compute_pct, memory_pct) >= HIGH_PCT:
        return Limited(by, f"{seen} ({HIGH_PCT:.0f} % or more is at the limit)")
    if max(compute_pct, memory_pct) < LOW_PCT:
        return Limited(Limit.LATENCY_BOUND, f"{seen}, both under {LOW_PCT:.0f} %: it waits")
    if abs(compute_pct - memory_pct) < APART_PCT:
        return Limited(Limit.BALANCED, f"{seen}, less than {APART_PCT:.0f} points apart")
    return Limited(by, f"{seen}, {APART_PCT:.0f} points or more apart")
