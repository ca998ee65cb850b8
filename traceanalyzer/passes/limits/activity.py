"""What sampled activity of a GPU says: GPU metrics of nsys, and what DCGM measures under other names.

Percentages are of peak, averaged over samples. SM active: multiprocessors with a warp on them; SM issue: cycles in
which a multiprocessor issues an instruction; tensor: cycles of the tensor pipe; DRAM: reading and writing together.
"""

from dataclasses import dataclass
from enum import StrEnum

from traceanalyzer.passes.limits.sol import HIGH_PCT, LOW_PCT

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


def used(activity: Activity) -> tuple[float, float, str] | None:
    """Use of compute and of memory, and what compute is: the larger of instruction issue and tensor pipe.

    Memory is DRAM alone, as caches are not sampled. None where one of the two was not sampled.
    """
    tensor, issue, memory = activity.tensor_pct, activity.sm_issue_pct, activity.dram_pct
    if memory is None or (tensor is None and issue is None):
        return None
    if issue is None or (tensor is not None and tensor >= issue):
        return tensor or 0.0, memory, "tensor pipe"
    return issue, memory, "instruction issue"


def reading_of(activity: Activity, *, idle: bool) -> tuple[Reading, str] | None:
    """What activity means over busy time, or over gaps (`idle`), and the sentence that says so.

    None where multiprocessors or DRAM were not sampled.
    """
    sm, dram, tensor, issue = activity.sm_active_pct, activity.dram_pct, activity.tensor_pct, activity.sm_issue_pct
    if sm is None or dram is None:
        return None
    if tensor is not None and tensor >= TENSOR_BUSY_PCT:
        return Reading.TENSOR_BUSY, f"tensor pipe {tensor:.0f} %: tensor cores do most of the work"
    seen = f"SM active {sm:.0f} %, DRAM {dram:.0f} %"
    if sm < IDLE_PCT and dram < IDLE_PCT:
        what = "starved: the device waits for the host" if idle else "next to nothing runs although kernels are there"
        return Reading.STARVED, f"{seen}, both under {IDLE_PCT:.0f} %: {what}"
    # Without the rate of issue the tensor pipe is all that tells of work: warps that wait for memory are active too.
    if dram >= LOW_PCT and dram > (issue if issue is not None else tensor or 0.0):
        return Reading.MEMORY_LIMITED, f"{_with_issue(seen, issue)}: limited by device memory"
    if issue is not None and issue >= LOW_PCT:
        return Reading.COMPUTE_BUSY, f"{_with_issue(seen, issue)}: the multiprocessors are busy with instructions"
    if sm >= HIGH_PCT and max(dram, issue or 0, tensor or 0) < LITTLE_PCT:
        what = "warps are there, little is done: efficiency of the kernels"
        return Reading.KERNEL_EFFICIENCY, f"{_with_issue(seen, issue)}: {what}"
    if sm < HIGH_PCT and dram < LOW_PCT and max(issue or 0, tensor or 0) < LITTLE_PCT:
        return (
            Reading.FEW_SMS,
            f"{_with_issue(seen, issue)}: kernels fill part of the multiprocessors, or of the time",
        )
    return Reading.MODERATE, f"{_with_issue(seen, issue)}: no unit near its limit in the mean of its kernels"


def _with_issue(seen: str, issue: float | None) -> str:
    return seen if issue is None else f"{seen}, instruction issue {issue:.0f} %"
