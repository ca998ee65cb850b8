"""Parts of a step: the categories of the ledger in the few groups that the check-up gives verdicts of.

The verdicts of the check-up cost what these parts are. Refill, which is what a synchronisation costs after it
returned, goes to `idle:sync` where blocking calls are more than a step can do without, else to `idle:launch`.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.passes.causes import Cause
from traceanalyzer.passes.idle.findings import CALLS_A_STEP
from traceanalyzer.passes.idle.lanes import DeviceGaps
from traceanalyzer.passes.idle.refill import CAUSES as REFILL_CAUSES

Ints = NDArray[np.int64]

IDLE_PARTS: Mapping[str, frozenset[Cause]] = {
    "idle:input": frozenset({Cause.INPUT_WAIT}),
    "idle:host": frozenset(
        {
            Cause.PYTHON,
            Cause.RANGE,
            Cause.OS_BLOCKED,
            Cause.GIL_WAIT,
            Cause.GARBAGE_COLLECTION,
            Cause.OUTSIDE_EVENTS,
        }
    ),
    "idle:launch": frozenset(REFILL_CAUSES),
    "idle:sync": frozenset({Cause.SYNC}),
    "idle:host_copy": frozenset({Cause.HOST_COPY}),
    "idle:allocation": frozenset({Cause.MEMORY_MANAGEMENT}),
    "idle:compile_or_load": frozenset({Cause.MODULE_LOAD}),
    "idle:dependency": frozenset({Cause.DEVICE_WAIT, Cause.DEVICE_GAP}),
    "idle:host_communication": frozenset({Cause.HOST_COMMUNICATION}),
    "idle:profiler": frozenset({Cause.PROFILER}),
    "idle:unattributed": frozenset({Cause.UNATTRIBUTED}),
}
"""Causes of idle time by part. The others, of the compute lane, are parts of their own: communication and copies."""
_PART_OF = {f"idle:{cause.text}": part for part, causes in IDLE_PARTS.items() for cause in causes}
SYNC, LAUNCH = "idle:sync", "idle:launch"
REFILL = "refill"
"""Stands for the refill among the categories that a part is made of."""


def part_of(category: str) -> str:
    """The part that a category of the ledger belongs to: busy categories are parts as they are."""
    return _PART_OF.get(category, category)


def blocking_calls(part: DeviceGaps, counted: Ints) -> float:
    """How many blocking calls drain the device in a counted step; in all, where there are none.

    `counted` are the numbers of the device steps that count for rates.
    """
    refill = part.attribution.refill
    if not len(counted):
        return float(refill.n_calls())
    return refill.n_calls(np.isin(part.step, counted)) / len(counted)


def refill_is_of_sync(calls: float) -> bool:
    """Whether refill is a cost of synchronisation, by the number of blocking calls a step."""
    return calls > CALLS_A_STEP
