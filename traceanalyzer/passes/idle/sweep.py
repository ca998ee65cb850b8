"""The sweep over the gaps of a device: every nanosecond of each gets one cause and one stack.

The rule (docs/reference/causes.md): the next operation of a gap has a launch, the launch a thread. Before the launch
began, the innermost event open on that thread decides the cause; during it, the launch does; after it, the device.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.passes.causes import LAUNCH_LATENCY_NS, Cause
from traceanalyzer.passes.idle.backward import Waiting, load_waiting
from traceanalyzer.passes.idle.copies import Copies, load_copies
from traceanalyzer.passes.idle.gaps import Gaps, LaunchingThread, find_gaps
from traceanalyzer.passes.idle.interpreter_lock import load_lock
from traceanalyzer.passes.idle.launches import causes_of_launches
from traceanalyzer.passes.idle.pieces import Pieces, checked, joined, made, merged
from traceanalyzer.passes.idle.profiler_overhead import load_overhead
from traceanalyzer.passes.idle.refill import IS_REFILL, Refill, find_refill
from traceanalyzer.passes.idle.samples import load_native_samples, load_samples
from traceanalyzer.passes.idle.stacks import NO_STACK, StackTree
from traceanalyzer.passes.idle.step_functions import StepFunction
from traceanalyzer.passes.idle.threads import Stretch, ThreadSweep
from traceanalyzer.passes.idle.unlaunched import Unlaunched, load_unlaunched
from traceanalyzer.passes.operations import Operations
from traceanalyzer.passes.scope import Scope

Ints = NDArray[np.int64]
_GAPS = 1 << 16
"""Gaps of a chunk."""


@dataclass(frozen=True, slots=True)
class Attribution:
    """The gaps of a device, and everything that their pieces follow from."""

    ops: Operations
    gaps: Gaps
    threads: "list[_Thread]"
    launch_cause: NDArray[np.int8]
    refill: Refill
    unlaunched: Unlaunched

    def pieces(self) -> Iterator[Pieces]:
        """The pieces of all gaps, in chunks, in order; the pieces of a gap partition it, which is checked."""
        return checked(self._chunks(), self.gaps.start, self.gaps.end)

    def _chunks(self) -> Iterator[Pieces]:
        for thread in self.threads:
            thread.begin()
        for low in range(0, len(self.gaps), _GAPS):
            pieces = self._chunk(np.arange(low, min(low + _GAPS, len(self.gaps))))
            yield merged(self._with_refill(pieces))

    def _chunk(self, gaps: NDArray[np.intp]) -> Pieces:
        owner = self.gaps.thread[gaps]
        parts = [self.unlaunched.pieces(self.gaps, gaps[owner < 0])] if (owner < 0).any() else []
        for number, thread in enumerate(self.threads):
            mine = gaps[owner == number]
            if len(mine):
                parts += thread.before_launch(self.gaps, mine)
                parts += self._from_launch(thread, mine)
        return joined(parts)

    def _from_launch(self, thread: "_Thread", which: NDArray[np.intp]) -> list[Pieces]:
        """From the launch to the gap's end: the call itself, then the way to the device, then the device's own wait."""
        gaps, events, place = self.gaps, thread.owner.events, self.gaps.launch[which]
        g0, g1 = gaps.start[which], gaps.end[which]
        l0, l1 = events.start[place], events.end(place)
        begin = np.clip(l0, g0, g1)
        returned = np.clip(l1, begin, g1)
        late = np.minimum(returned + LAUNCH_LATENCY_NS, g1)
        latency = np.where(l1 > g0, np.int8(Cause.LAUNCH_LATENCY), np.int8(Cause.DEVICE_GAP))
        node = events.node[place]
        return [
            made(which, begin, returned, self.launch_cause[which], node),
            made(which, returned, late, latency, node),
            made(which, late, g1, int(Cause.DEVICE_WAIT), node),
        ]

    def _with_refill(self, pieces: Pieces) -> Pieces:
        refill = self.refill.refilled[pieces.gap] & IS_REFILL[pieces.cause]
        return replace(pieces, refill=refill)


@dataclass(slots=True)
class _Thread:
    """A launching thread with what decides on it beside its events."""

    owner: LaunchingThread
    copies: Copies
    copy_of: NDArray[np.int32]
    is_copy: NDArray[np.bool_]
    overhead: StepFunction
    samples: StepFunction
    native: StepFunction
    lock: StepFunction
    waiting: Waiting
    sweep: ThreadSweep | None = None

    def begin(self) -> None:
        """Begins anew with the first gap."""
        self.sweep = ThreadSweep(self.owner.events)

    def before_launch(self, gaps: Gaps, which: NDArray[np.intp]) -> list[Pieces]:
        """From the gaps' starts to the launches: what the launching thread was doing."""
        start, launched = gaps.start[which], self.owner.events.start[gaps.launch[which]]
        until = np.minimum(launched, gaps.end[which])
        waits = until > start
        which, start, until = which[waits], start[waits], until[waits]
        if not len(which) or self.sweep is None:
            return []
        parts = self._by_copies(self.sweep.cut(start, until), which)
        for refine in (self._sampled, self._locked, self._waiting, self._with_native, self._with_overhead):
            parts = [refined for part in parts if len(part) for refined in refine(part)]
        return parts

    def _by_copies(self, stretch: Stretch, which: NDArray[np.intp]) -> list[Pieces]:
        """Causes of stretches; those inside copy calls are cut where the device begins to copy."""
        tree, copies = self.owner.events.tree, self.copies
        gap, end = which[stretch.interval], stretch.end
        cause = np.append(tree.cause, np.int8(Cause.OUTSIDE_EVENTS))[stretch.node]
        copying = np.flatnonzero(self.is_copy[stretch.place])
        if not len(copying):
            return [made(gap, stretch.start, end, cause, stretch.node)]
        copy = self.copy_of[stretch.place[copying]]
        start, whole_end = stretch.start[copying], end[copying]
        begun = np.clip(copies.begun[copy], start, whole_end)
        cause[copying] = np.where(begun > start, copies.before[copy], copies.after[copy])
        cut = np.flatnonzero((begun > start) & (begun < whole_end))
        end = end.copy()
        end[copying[cut]] = begun[cut]
        second = copying[cut]
        return [
            made(gap, stretch.start, end, cause, stretch.node),
            made(gap[second], begun[cut], whole_end[cut], copies.after[copy[cut]], stretch.node[second]),
        ]

    def _sampled(self, pieces: Pieces) -> list[Pieces]:
        """Where no API call is open, samples say what ran inside the open ranges."""
        if not self.samples:
            return [pieces]
        tree = self.owner.events.tree
        free = ~np.append(tree.in_call, False)[pieces.node]
        row, start, end, sample = self.samples.cut(pieces.start[free], pieces.end[free])
        row = np.flatnonzero(free)[row]
        held = sample >= 0
        node = pieces.node[row]
        node[held] = tree.merged(node[held], sample[held].astype(np.int32))
        cause = np.where(held, np.append(tree.cause, np.int8(Cause.OUTSIDE_EVENTS))[node], pieces.cause[row])
        return [pieces.take(~free), made(pieces.gap[row], start, end, cause, node, sampled=held)]

    def _locked(self, pieces: Pieces) -> list[Pieces]:
        """Where nothing is open but the thread holds the interpreter lock, it runs Python."""
        return _with_causes(pieces, _bare(pieces), self.lock) if self.lock else [pieces]

    def _waiting(self, pieces: Pieces) -> list[Pieces]:
        """Where nothing is open while another thread waits inside `backward`, the framework is at work."""
        bare = _bare(pieces) if self.waiting else None
        if bare is None or not bare.any():
            return [pieces]
        row, start, end, node = self.waiting.node.cut(pieces.start[bare], pieces.end[bare])
        gap = pieces.gap[np.flatnonzero(bare)[row]]
        cause = np.where(node >= 0, int(Cause.FRAMEWORK), int(Cause.OUTSIDE_EVENTS))
        sampled = self.waiting.sampled.at_instants(start) == 1
        return [pieces.take(~bare), made(gap, start, end, cause, node, sampled=sampled)]

    def _with_native(self, pieces: Pieces) -> list[Pieces]:
        """Where no API call is open, samples of native stacks add their frames, but decide no cause."""
        if not self.native:
            return [pieces]
        tree = self.owner.events.tree
        free = ~np.append(tree.in_call, False)[pieces.node] & self.native.touches(pieces.start, pieces.end)
        if not free.any():
            return [pieces]
        row, start, end, sample = self.native.cut(pieces.start[free], pieces.end[free])
        row = np.flatnonzero(free)[row]
        held = sample >= 0
        node = pieces.node[row]
        node[held] = tree.merged(node[held], sample[held].astype(np.int32))
        sampled = pieces.sampled[row] | (node != pieces.node[row])
        return [pieces.take(~free), made(pieces.gap[row], start, end, pieces.cause[row], node, sampled=sampled)]

    def _with_overhead(self, pieces: Pieces) -> list[Pieces]:
        """What the profiler says of its own work decides wherever it is open."""
        return _with_causes(pieces, np.ones(len(pieces), bool), self.overhead) if self.overhead else [pieces]


def _bare(pieces: Pieces) -> NDArray[np.bool_]:
    bare: NDArray[np.bool_] = (pieces.cause == int(Cause.OUTSIDE_EVENTS)) & (pieces.node == NO_STACK)
    return bare


def _with_causes(pieces: Pieces, rows: NDArray[np.bool_], causes: StepFunction) -> list[Pieces]:
    """Some of the pieces cut where a function of causes has edges; where it has a value, that is the cause."""
    rows &= causes.touches(pieces.start, pieces.end)
    if not rows.any():
        return [pieces]
    row, start, end, cause = causes.cut(pieces.start[rows], pieces.end[rows])
    row = np.flatnonzero(rows)[row]
    cause = np.where(cause >= 0, cause, pieces.cause[row])
    cut = made(pieces.gap[row], start, end, cause, pieces.node[row], sampled=pieces.sampled[row])
    return [pieces.take(~rows), cut]


def attribute(scope: Scope, tree: StackTree, ops: Operations) -> Attribution:
    """The gaps of a device with what is needed to cut them into pieces."""
    capture = ops.device.capture
    gaps = find_gaps(scope, tree, ops)
    copies = load_copies(scope, capture)
    threads = []
    known = {(owner.process, owner.thread): owner.events for owner in gaps.threads}
    for owner in gaps.threads:
        copy_of = copies.of_thread(owner.events)
        place = (scope, capture, owner.process, owner.thread)
        threads.append(
            _Thread(
                owner,
                copies,
                copy_of,
                copy_of >= 0,
                overhead=load_overhead(*place),
                samples=load_samples(*place, owner.events),
                native=load_native_samples(*place),
                lock=load_lock(*place),
                waiting=load_waiting(scope, tree, *place[1:], known=known),
            )
        )
    return Attribution(
        ops,
        gaps,
        threads,
        launch_cause=causes_of_launches(scope, ops, gaps),
        refill=find_refill(ops, gaps, copies, [thread.copy_of for thread in threads]),
        unlaunched=load_unlaunched(scope, ops, gaps),
    )
