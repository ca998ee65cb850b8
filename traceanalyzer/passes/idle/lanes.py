"""Gaps and pieces of the selected lane, device by device: what the questions about idle time begin with."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.numeric.intervals import intersect
from traceanalyzer.passes.causes import Cause
from traceanalyzer.passes.idle.launch_stacks import launch_stacks
from traceanalyzer.passes.idle.pieces import Pieces, checked, joined, made, merged
from traceanalyzer.passes.idle.stacks import StackTree
from traceanalyzer.passes.idle.sweep import Attribution, attribute
from traceanalyzer.passes.operations import NULL, Operations, busy_without_compute, load_operations
from traceanalyzer.passes.scope import DeviceOfCapture, Scope
from traceanalyzer.passes.step_marks import step_window, with_steps
from traceanalyzer.schema.kinds import Lane

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DeviceGaps:
    """Operations and gaps of one device on the selected lane.

    `start`, `end` are the gaps of the lane and `next_op` the operations that end them (-1: none); `thread_numbers` are
    the places of their launching threads in `attribution.gaps.threads` (-1: not known). `pieces` begins to go over all
    pieces, in chunks, in order. Their `gap` counts these gaps.
    """

    device: DeviceOfCapture
    ops: Operations
    start: Ints
    end: Ints
    next_op: NDArray[np.int32]
    thread_numbers: Callable[[], NDArray[np.int32]]
    pieces: Callable[[], Iterator[Pieces]]
    attribution: Attribution
    of_device: bool
    """Whether these are the gaps of the device itself, numbered as those of the attribution."""

    @property
    def step(self) -> Ints:
        """The step of each gap: that of the operation which ends it; `NULL` where there is none."""
        return np.append(self.ops.step, NULL)[self.next_op]

    def threads_of(self, gaps: NDArray[np.integer]) -> list[int | None]:
        """The thread that launched the operation which ends each of some gaps."""
        threads = self.attribution.gaps.threads
        return [None if k < 0 else threads[k].thread for k in self.thread_numbers()[gaps].tolist()]

    @property
    def idle_ns(self) -> int:
        """Idle time of the lane."""
        return int((self.end - self.start).sum())


def devices_with_gaps(scope: Scope, tree: StackTree) -> Iterator[DeviceGaps]:
    """Gaps and pieces of every selected device, one device at a time."""
    for device in scope.devices:
        steps_anew = scope.selection.step_range is not None
        ops = with_steps(scope, load_operations(scope, device, launched=steps_anew))
        if scope.selection.steps is not None:
            ops = step_window(scope, ops)
        if not len(ops):
            continue
        found = attribute(scope, tree, ops)
        if scope.selection.lane == "compute":
            yield _on_compute_lane(scope, tree, found)
        else:
            yield _on_device_lane(device, found)


def _on_device_lane(device: DeviceOfCapture, found: Attribution) -> DeviceGaps:
    gaps = found.gaps
    own = (gaps.start, gaps.end, gaps.next_op, lambda: gaps.thread)
    return DeviceGaps(device, found.ops, *own, found.pieces, found, of_device=True)


def _on_compute_lane(scope: Scope, tree: StackTree, found: Attribution) -> DeviceGaps:
    """The holes between compute kernels; their device-idle part keeps its causes, the rest is what else ran."""
    ops, gaps = found.ops, found.gaps
    start, end = ops.gaps_without(Lane.COMPUTE)
    compute = np.flatnonzero((ops.lane == int(Lane.COMPUTE)) & (ops.end > ops.start))
    at = np.append(ops.start[compute], np.iinfo(np.int64).max)
    next_at = np.searchsorted(at[:-1], end, side="left")
    next_op = np.where(at[next_at] == end, np.append(compute, -1)[next_at], -1).astype(np.int32)

    def thread_numbers() -> NDArray[np.int32]:
        inner = np.searchsorted(gaps.end, end)
        ends_device_gap = np.append(gaps.end, -1)[inner] == end
        return np.where(ends_device_gap, np.append(gaps.thread, -1)[inner], -1).astype(np.int32)

    def pieces() -> Iterator[Pieces]:
        return checked(map(merged, _compute_pieces(scope, tree, found, start, end)), start, end)

    return DeviceGaps(ops.device, ops, start, end, next_op, thread_numbers, pieces, found, of_device=False)


def _compute_pieces(scope: Scope, tree: StackTree, found: Attribution, start: Ints, end: Ints) -> Iterator[Pieces]:
    beside = []
    causes = ((Lane.COMMUNICATION, Cause.COMMUNICATION_ONLY), (Lane.COPY, Cause.COPY_ONLY))
    for busy, (lane, cause) in zip(busy_without_compute(found.ops), causes, strict=True):
        which, begun, until = _of_each(found.ops, lane)
        low, high = intersect(*intersect(start, end, *busy), begun, until)
        own = launch_stacks(scope, tree, found.ops, which, found.gaps)
        node = own[np.searchsorted(begun, low, side="right") - 1]
        beside.append(made(np.searchsorted(start, low, side="right") - 1, low, high, int(cause), node))
    other = joined(beside)
    # A gap of the lane is told once all gaps of the device inside it are: it may hold several of them.
    told, kept = 0, []
    for pieces in found.pieces():
        outer = np.searchsorted(start, pieces.start, side="right") - 1
        kept.append(Pieces(outer, *(getattr(pieces, name) for name in Pieces.__slots__ if name != "gap")))
        done = int(outer[-1])
        if done > int(kept[0].gap[0]):
            upto = int(np.searchsorted(other.gap, done))
            all_of = joined([*kept, other.take(slice(told, upto))])
            whole = int(np.searchsorted(all_of.gap, done))
            told, kept = upto, [all_of.take(slice(whole, None))]
            yield all_of.take(slice(0, whole))
    rest = joined([*kept, other.take(slice(told, None))])
    if len(rest):
        yield rest


def _of_each(ops: Operations, lane: Lane) -> tuple[NDArray[np.intp], Ints, Ints]:
    """The union of a lane, each part with the operation that began first of those that run: operation, start, end."""
    which = np.flatnonzero(ops.lane == int(lane))
    done = np.maximum.accumulate(ops.end[which])
    begun = np.maximum(ops.start[which], np.append(np.iinfo(np.int64).min, done[:-1])[: len(which)])
    long = done > begun
    return which[long], begun[long], done[long]
