"""Which verdict each category of the ledger is charged to, in the counted steps of a device.

The table is that of the definitions: a cost is told once, and what no verdict takes is left over.
"""

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.numeric.nesting import cut_intervals
from traceanalyzer.passes.causes import Cause
from traceanalyzer.passes.communication.ranks import RankCommunication
from traceanalyzer.passes.idle.accounts import DeviceAccount
from traceanalyzer.passes.idle.lanes import DeviceGaps
from traceanalyzer.passes.idle.pieces import Pieces
from traceanalyzer.passes.idle.samples import python_period_ns
from traceanalyzer.passes.idle.stacks import StackTree
from traceanalyzer.passes.idle.totals import KeyedTotals
from traceanalyzer.passes.ledger import category_times, counted_device_steps, step_edges
from traceanalyzer.passes.parts import blocking_calls, part_of, refill_is_of_sync
from traceanalyzer.passes.pauses import Pause, recurring_pauses
from traceanalyzer.passes.scope import DeviceOfCapture, Scope
from traceanalyzer.passes.step_marks import device_steps, with_steps
from traceanalyzer.schema.kinds import EventKind

VERDICT_OF_PART = {
    "idle:input": "input_bound",
    "idle:host": "host_bound",
    "idle:launch": "launch_bound",
    "idle:sync": "sync_bound",
    "idle:host_copy": "copy_bound",
    "copy": "copy_bound",
    "idle:allocation": "allocation_bound",
    "idle:compile_or_load": "compile_or_load",
    "idle:dependency": "dependency_bound",
    "idle:profiler": "profiler_bound",
    "idle:host_communication": "communication_bound",
    "communication_transfer": "communication_bound",
    "communication_unresolved": "communication_bound",
    "communication_wait": "straggler_bound",
}
"""Verdict of each part of `summary`; parts that are missing here are compute, or left over."""
CHARGED_TO = {
    cause: VERDICT_OF_PART[part_of(f"idle:{cause.text}")]
    for cause in Cause
    if part_of(f"idle:{cause.text}") in VERDICT_OF_PART
}
"""Verdict of idle time by its cause, before refill and samples are looked at; what is missing here is left over."""

PAUSE_VERDICT = "periodic_pause"
"""Verdict of idle time by which steps that recur exceed the others: it is taken from all the others."""
LEFT_OVER = "left_over"
"""Idle time that no verdict takes: it is not attributed to anything."""

REFILL, SAMPLED, PAUSE = "refill", "sampled", "pause"
_PLAIN = ""
_NOTES = (_PLAIN, REFILL, SAMPLED, PAUSE)
PAUSE_NS = 3_000
"""Pauses up to this length between operations that were queued are the device's own: it needs 1 to 2.5 us from one
kernel to the next (measured on H200, the same in streams and in graphs).
"""


@dataclass(frozen=True, slots=True, order=True)
class Charge:
    """What a verdict is charged with: a category of the ledger, or a part of it that is told apart by `note`.

    That is refill, short samples of Python, or pauses of the device between operations that were queued.
    """

    category: str
    note: str = _PLAIN


@dataclass
class DeviceCharges:
    """The ledger of a device in its counted steps, cut by verdict: all parts add up to `total_ns`.

    Without steps the whole span counts as one. `blocking_calls` are those of a step that drained the device.
    """

    device: DeviceOfCapture
    whose: str
    account: DeviceAccount
    stepped: bool
    n_steps: int
    total_ns: int
    compute_ns: int
    blocking_calls: float
    parts: dict[str, dict[Charge, int]] = field(default_factory=dict)
    pauses: list[Pause] = field(default_factory=list)

    def cost_ns(self, verdict: str) -> float:
        """What a verdict costs a step."""
        return sum(self.parts.get(verdict, {}).values()) / self.n_steps

    @property
    def place(self) -> dict[str, object]:
        """What a row of a table is found by: capture, rank, device."""
        return {"capture": self.device.capture, "rank": self.device.rank, "device": self.device.device}

    @property
    def step_ns(self) -> float:
        """Length of a step."""
        return self.total_ns / self.n_steps

    def move(self, cause: Cause, ns: int, verdict: str) -> None:
        """Move idle time of a cause from the verdicts that have it to another one: at most as much as there is."""
        category = f"idle:{cause.text}"
        mine = self.parts.setdefault(verdict, {})
        left = ns
        for name, charges in self.parts.items():
            for charge in [each for each in charges if each.category == category and name != verdict]:
                taken = min(left, charges[charge])
                charges[charge] -= taken
                left -= taken
        if left < ns:
            mine[Charge(category)] = mine.get(Charge(category), 0) + ns - left


def charges_of(scope: Scope, tree: StackTree, part: DeviceGaps, communication: RankCommunication) -> DeviceCharges:
    """The charges of a device."""
    account = DeviceAccount(scope, tree, part)
    steps = counted_device_steps(scope, part)
    stepped = len(steps) > 0
    low, high = part.ops.span
    out = DeviceCharges(part.device, scope.whose(part.device), account, stepped, max(len(steps), 1), high - low, 0, 0.0)
    counted = set(steps.step.tolist())
    ledger: dict[str, int] = defaultdict(int)
    for (step, category), ns in category_times(scope, part, communication).by_step.items():
        if not stepped or step in counted:
            ledger[category] += ns
    out.total_ns = sum(ledger.values())
    out.compute_ns = ledger.pop("compute", 0)
    out.blocking_calls = blocking_calls(part, steps.step)
    parts: dict[str, dict[Charge, int]] = defaultdict(lambda: defaultdict(int))
    for category in [name for name in ledger if not name.startswith("idle:")]:
        parts[VERDICT_OF_PART[category]][Charge(category)] += ledger.pop(category)
    for (cause, note), ns in _idle(scope, part, counted, stepped=stepped).items():
        parts[_verdict_of(cause, note, out.blocking_calls)][Charge(f"idle:{cause.text}", note)] += ns
        ledger[f"idle:{cause.text}"] -= ns
    if any(ledger.values()):
        raise AssertionError("the verdicts do not add up to the ledger")
    out.parts = {name: dict(charges) for name, charges in parts.items()}
    if scope.selection.steps is None:
        out.pauses = recurring_pauses(scope, tree, part)
    for pause in out.pauses:
        for cause, ns in pause.excess_ns_by_cause.items():
            out.move(cause, ns, PAUSE_VERDICT)
    return out


def _verdict_of(cause: Cause, note: str, calls: float) -> str:
    if note == REFILL:
        return "sync_bound" if refill_is_of_sync(calls) else "launch_bound"
    return "launch_bound" if note == SAMPLED else CHARGED_TO.get(cause, LEFT_OVER)


def _idle(scope: Scope, part: DeviceGaps, counted: set[int], *, stepped: bool) -> dict[tuple[Cause, str], int]:
    """Idle time in counted steps by cause, with refill and short samples apart."""
    totals = KeyedTotals()
    steps = device_steps(with_steps(scope, part.ops))
    at, index = step_edges(steps)
    index[:-1][~np.isin(steps.step, list(counted))] = -1
    period = _python_period(scope, part.device.capture)
    refilled = part.attribution.refill.refilled
    for pieces in part.pieces():
        row, low, high, which = cut_intervals(at, index, pieces.start, pieces.end)
        mine = which >= 0 if stepped else np.ones(len(row), np.bool_)
        note = _note(pieces, refilled, period)
        key = pieces.cause.astype(np.int64) * len(_NOTES) + note
        totals.add(key[row[mine]], (high - low)[mine])
    return {(Cause(key // len(_NOTES)), _NOTES[key % len(_NOTES)]): ns for key, ns, _ in totals.rows() if ns}


def _note(pieces: Pieces, refilled: NDArray[np.bool_], period: int) -> NDArray[np.int64]:
    """Of each piece its note, as a place in `_NOTES`.

    Sampled Python counts as what launching takes where less than the time of two samples is between the launches.
    """
    pause = (np.asarray(pieces.cause) == int(Cause.DEVICE_GAP)) & (pieces.length <= PAUSE_NS)
    note = np.where(np.asarray(pieces.refill), _NOTES.index(REFILL), np.where(pause, _NOTES.index(PAUSE), 0))
    if not period:
        return note
    python = np.asarray(pieces.sampled) & (np.asarray(pieces.cause) == int(Cause.PYTHON))
    short = python & (_between_launches(pieces) < period)
    # In a gap that a blocking call drained, that is what it takes to fill the device again.
    kind = np.where(refilled[pieces.gap], _NOTES.index(REFILL), _NOTES.index(SAMPLED))
    return np.where(short, kind, note)


def _between_launches(pieces: Pieces) -> NDArray[np.int64]:
    """For how long the time goes on in which each piece lies: in its gap, from a launch to the next one."""
    gap, launch = np.asarray(pieces.gap), np.asarray(pieces.cause) == int(Cause.LAUNCH_CALL)
    fresh = np.append(True, (gap[1:] != gap[:-1]) | (launch[1:] != launch[:-1]))[: len(gap)]
    run = np.cumsum(fresh) - 1
    length = np.zeros(len(gap), np.int64)
    np.add.at(length, run, pieces.length)
    between: NDArray[np.int64] = length[run]
    return between


def _python_period(scope: Scope, capture: int) -> int:
    """Median distance of samples of Python where they stand in for operators; 0 where operators were recorded."""
    if scope.holds("cpu_events", capture, f"kind = {int(EventKind.OPERATOR)}"):
        return 0
    return python_period_ns(scope.connection, capture) or 0
