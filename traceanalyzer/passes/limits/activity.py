"""What sampled activity of a GPU says: GPU metrics of nsys, and what DCGM measures under other names.

Percentages are of peak, averaged over samples. SM active: multiprocessors with a warp on them; SM issue: cycles in
which a multiprocessor issues an instruction; tensor: cycles of the tensor pipe; DRAM: reading and writing together.
"""

from dataclasses import dataclass
from enum import StrEnum

from traceanalyzer.passes.limits.limit import Limit, Limited
from traceanalyzer.passes.limits.sol import APART_PCT, HIGH_PCT, LOW_PCT

TENSOR_BUSY_PCT = 50.0
"""From here on tensor cores do the work, whatever else is low: few warps feed them."""
LITTLE_PCT = 40.0
"""Below this resident warps make little use of a unit."""
IDLE_PCT = 20.0
"""Below this a unit does next to nothing."""


@dataclass(frozen=True, slots=True)
class Activity:
    """Mean percentages of peak; None where the source has no such metric."""

    sm_active_pct: float | None = None
    sm_issue_pct: float | None = None
    tensor_pct: float | None = None
    dram_pct: float | None = None


class Reading(StrEnum):
    """What the activity of a device over some time means."""

    TENSOR_BUSY = "tensor_busy"
    MEMORY_LIMITED = "memory_limited"
    COMPUTE_BUSY = "compute_busy"
    KERNEL_EFFICIENCY = "kernel_efficiency"
    FEW_SMS = "few_sms"
    STARVED = "starved"
    MODERATE = "moderate"


def limited_by(activity: Activity) -> Limited:
    """What limits a kernel that runs alone, by the rule of NVIDIA's SpeedOfLight over what is sampled.

    Compute is the larger of instruction issue and tensor pipe, memory is DRAM alone: caches are not sampled. Nothing
    where one of the two is unknown.
    """
    compute = max((p for p in (activity.sm_issue_pct, activity.tensor_pct) if p is not None), default=None)
    memory = activity.dram_pct
    if compute is None or memory is None:
        return Limited(None, "not sampled: " + ("DRAM" if memory is None else "instruction issue and tensor pipe"))
    unit = "tensor pipe" if compute == activity.tensor_pct else "instruction issue"
    both = f"{unit} {compute:.0f} %, DRAM read and write {memory:.0f} %"
    if max(compute, memory) >= HIGH_PCT:
        by = Limit.COMPUTE_BOUND if compute >= memory else Limit.MEMORY_BOUND
        return Limited(by, f"{_first(unit, compute, memory)}: {HIGH_PCT:.0f} % or more is at the limit")
    if max(compute, memory) < LOW_PCT:
        return Limited(Limit.LATENCY_BOUND, f"{both}: both under {LOW_PCT:.0f} %: it waits, for neither of them")
    if abs(compute - memory) < APART_PCT:
        return Limited(Limit.BALANCED, f"{both}: less than {APART_PCT:.0f} points apart")
    by = Limit.COMPUTE_BOUND if compute > memory else Limit.MEMORY_BOUND
    return Limited(by, f"{_first(unit, compute, memory)}: the one used more, by {APART_PCT:.0f} points or more")


def _first(unit: str, compute: float, memory: float) -> str:
    words = (f"{unit} {compute:.0f} %", f"DRAM read and write {memory:.0f} %")
    return " and ".join(words if compute >= memory else words[::-1])


def reading_of(activity: Activity, *, idle: bool) -> tuple[Reading, str] | None:
    """What activity means over busy time, or over gaps (`idle`), and the sentence that says so.

    None where multiprocessors or DRAM were not sampled.
    """
    sm, dram, tensor, issue = activity.sm_active_pct, activity.dram_pct, activity.tensor_pct, activity.sm_issue_pct
    if sm is None or dram is None:
        return None
    if tensor is not None and tensor >= TENSOR_BUSY_PCT:
        return Reading.TENSOR_BUSY, f"tensor pipe {tensor:.0f} %: tensor cores do the work, nothing to find here"
    seen = f"SM active {sm:.0f} %, DRAM {dram:.0f} %"
    if sm < IDLE_PCT and dram < IDLE_PCT:
        what = "starved: the device waits for the host" if idle else "next to nothing runs although kernels are there"
        return Reading.STARVED, f"{seen}, both under {IDLE_PCT:.0f} %: {what}"
    if dram >= LOW_PCT and dram > (issue if issue is not None else sm):
        return Reading.MEMORY_LIMITED, f"{_with_issue(seen, issue)}: limited by device memory"
    if issue is not None and issue >= LOW_PCT:
        return Reading.COMPUTE_BUSY, f"{_with_issue(seen, issue)}: the multiprocessors are busy with instructions"
    if sm >= HIGH_PCT and max(dram, issue or 0, tensor or 0) < LITTLE_PCT:
        what = "warps are there, little is done: efficiency of the kernels"
        return Reading.KERNEL_EFFICIENCY, f"{_with_issue(seen, issue)}: {what}"
    if sm < LOW_PCT and dram < LOW_PCT:
        return (
            Reading.FEW_SMS,
            f"{_with_issue(seen, issue)}: kernels fill part of the multiprocessors, or of the time",
        )
    return Reading.MODERATE, f"{_with_issue(seen, issue)}: no unit near its limit"


def _with_issue(seen: str, issue: float | None) -> str:
    return seen if issue is None else f"{seen}, instruction issue {issue:.0f} %"
