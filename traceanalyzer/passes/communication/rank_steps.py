"""What each rank did in each device step, as matrices of ranks by steps: the ground on which ranks are compared."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.numeric.grouping import connected
from traceanalyzer.numeric.intervals import intersect, measure_before, subtract, union
from traceanalyzer.passes.communication.kinds import POINT_TO_POINT, Kind
from traceanalyzer.passes.communication.operations import UNKNOWN
from traceanalyzer.passes.communication.ranks import RankCommunication
from traceanalyzer.passes.operations import NULL, Operations, busy_without_compute, load_operations
from traceanalyzer.passes.scope import DeviceOfCapture, Scope
from traceanalyzer.passes.step_marks import (
    DeviceSteps,
    counted_steps,
    device_steps,
    step_window,
    with_steps,
)
from traceanalyzer.schema.kinds import Lane

Ints = NDArray[np.int64]
PARTS = ("duration", "compute", "wait", "transfer", "copy", "idle")
"""What is known of a step. `wait` and `transfer` are of communication that compute does not hide: exposed."""


@dataclass(frozen=True, slots=True)
class RankSteps:
    """Times of ranks (rows) in the device steps (columns) that all of them have and that count.

    `part` has a matrix for each of `PARTS`, in ns; `groups` are ranks that take part in the same collectives, and
    `component` tells which ranks are connected by these: only those are compared. A rank on its own has a component of
    its own.
    `stepped` is False where the trace has no steps: then the one column is the whole span of each rank. `windows` are
    from the first of these steps to the last, `exposed` is communication that no compute hides, and `ready` says of
    operations that communicate (`op_id`) when the compute was done that had been launched before them, all on each
    rank's own clock.
    """

    devices: list[DeviceOfCapture]
    ranks: Ints
    steps: Ints
    part: dict[str, Ints]
    component: Ints
    groups: list[tuple[int, ...]]
    stepped: bool
    windows: list[tuple[int, int]]
    exposed: list[tuple[Ints, Ints]]
    ready: list[tuple[Ints, Ints]]

    @property
    def own(self) -> Ints:
        """Time that a rank takes by itself: the step without communication that compute does not hide.

        Transfers are no part of it: who is late hides them behind its own work, while the others have nothing left to
        hide them behind.
        """
        own: Ints = self.part["duration"] - self.part["wait"] - self.part["transfer"]
        return own

    def others(self, row: int) -> NDArray[np.intp]:
        """Rows of the ranks that a rank is compared with."""
        mine = self.component == self.component[row]
        mine[row] = False
        return np.flatnonzero(mine)

    def longest_step_ns(self) -> float:
        """Length of a step of the job: the longest of the ranks' means."""
        return float(self.mean("duration").max()) if len(self.ranks) else 0.0

    def mean(self, name: str) -> NDArray[np.float64]:
        """A part per step, of each rank."""
        mean: NDArray[np.float64] = self.part[name].mean(axis=1)
        return mean


def load_rank_steps(scope: Scope, communication: RankCommunication) -> RankSteps:
    """The steps of the ranks of a scope.

    Of a rank with several devices the first one that has steps counts; of one with several captures the first.
    """
    found: dict[int, _Rank] = {}
    for device in scope.devices:
        if device.rank is None:
            continue
        known = found.get(device.rank)
        if known is None or not len(known.steps):
            one = _Rank.load(scope, device)
            if known is None or len(one.steps):
                found[device.rank] = one
    ranks = sorted(found)
    common = sorted(set.intersection(*(set(found[rank].counted.tolist()) for rank in ranks))) if ranks else []
    rows = [found[rank].parts(communication, common) for rank in ranks]
    part = {
        name: np.array([row[name] for row in rows], np.int64).reshape(len(ranks), max(len(common), 1)) for name in PARTS
    }
    together = _groups(communication)
    place = {rank: k for k, rank in enumerate(ranks)}
    sets = [[place[rank] for rank in group if rank in place] for group in together]
    return RankSteps(
        [found[rank].device for rank in ranks],
        np.array(ranks, np.int64),
        np.array(common, np.int64),
        part,
        connected(len(ranks), [each for each in sets if each]),
        together,
        bool(common),
        [found[rank].window(common) for rank in ranks],
        [found[rank].exposed for rank in ranks],
        [found[rank].ready for rank in ranks],
    )


def _groups(communication: RankCommunication) -> list[tuple[int, ...]]:
    """Ranks that take part in the same collectives, whatever is known of their waits; sends connect nobody."""
    of = communication.matches.communication
    apart = [int(kind) for kind in (*POINT_TO_POINT, Kind.SEND_RECV)]
    mine = np.flatnonzero((of.group != UNKNOWN) & (of.rank != UNKNOWN) & ~np.isin(of.kind, apart))
    pairs = np.unique(np.stack((of.group[mine], of.rank[mine]), 1), axis=0)
    groups: dict[int, list[int]] = {}
    for group, rank in pairs.tolist():
        groups.setdefault(group, []).append(rank)
    return sorted({tuple(ranks) for ranks in groups.values() if len(ranks) > 1})


@dataclass(frozen=True, slots=True)
class _Rank:
    """A rank's device steps, and the intervals of its lanes: what is needed of its operations."""

    device: DeviceOfCapture
    steps: DeviceSteps
    counted: Ints
    span: tuple[int, int]
    compute: tuple[Ints, Ints]
    exposed: tuple[Ints, Ints]
    copy: tuple[Ints, Ints]
    busy: tuple[Ints, Ints]
    ready: tuple[Ints, Ints]

    @classmethod
    def load(cls, scope: Scope, device: DeviceOfCapture) -> "_Rank":
        ops = with_steps(scope, load_operations(scope, device))
        steps = device_steps(ops)
        counted = counted_steps(scope, ops, steps)
        if scope.selection.steps is not None:
            low, high = scope.selection.steps
            counted &= (steps.step >= low) & (steps.step <= high)
            ops = step_window(scope, ops)
        exposed, copy = busy_without_compute(ops)
        busy = union(ops.start, ops.end)
        return cls(
            device, steps, steps.step[counted], ops.span, ops.lane_union(Lane.COMPUTE), exposed, copy, busy, _ready(ops)
        )

    def window(self, common: list[int]) -> tuple[int, int]:
        """From the first of some steps to the last; without any, the whole span."""
        if not common:
            return self.span
        mine = np.isin(self.steps.step, common)
        return int(self.steps.start[mine].min()), int(self.steps.end[mine].max())

    def parts(self, communication: RankCommunication, common: list[int]) -> dict[str, list[int]]:
        """Time of each part in the common steps; without any, in the whole span."""
        if common:
            at = {step: k for k, step in enumerate(self.steps.step.tolist())}
            place = [at[step] for step in common]
            low, high = self.steps.start[place], self.steps.end[place]
        else:
            low, high = np.array([self.span[0]], np.int64), np.array([self.span[1]], np.int64)
        of, waits = communication.matches.communication, communication.waits.wait
        mine = np.flatnonzero((of.capture == self.device.capture) & (of.device == self.device.device))
        # Where one operation transfers while another waits, the device is not held up by the wait.
        transfers = union(of.start[mine] + waits[mine], of.end[mine])
        waiting = subtract(*intersect(*self.exposed, *union(of.start[mine], of.start[mine] + waits[mine])), *transfers)
        times = {
            "duration": high - low,
            "compute": _between(self.compute, low, high),
            "wait": _between(waiting, low, high),
            "transfer": _between(self.exposed, low, high) - _between(waiting, low, high),
            "copy": _between(self.copy, low, high),
            "idle": high - low - _between(self.busy, low, high),
        }
        return {name: values.tolist() for name, values in times.items()}


def _ready(ops: Operations) -> tuple[Ints, Ints]:
    """Operations that communicate, by number, and when they could have begun: when all compute that was launched before
    them was done, for that is what their stream waits for.
    """
    known = ops.launched != NULL
    compute = np.flatnonzero(known & (ops.lane == int(Lane.COMPUTE)))
    compute = compute[np.argsort(ops.launched[compute], kind="stable")]
    mine = np.flatnonzero(known & (ops.lane == int(Lane.COMMUNICATION)))
    mine = mine[np.argsort(ops.op_id[mine], kind="stable")]
    done = np.maximum.accumulate(ops.end[compute]) if len(compute) else np.zeros(0, np.int64)
    before = np.searchsorted(ops.launched[compute], ops.launched[mine], side="left") - 1
    ready = np.maximum(np.where(before >= 0, np.append(done, 0)[before], ops.launched[mine]), ops.launched[mine])
    return ops.op_id[mine], ready


def _between(intervals: tuple[Ints, Ints], low: Ints, high: Ints) -> Ints:
    between: Ints = measure_before(*intervals, high) - measure_before(*intervals, low)
    return between
