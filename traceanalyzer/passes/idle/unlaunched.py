"""Gaps whose next operation has no launch in the file: what can be said of them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.numeric.grouping import groups
from traceanalyzer.passes.causes import LAUNCH_LATENCY_NS, Cause, Reason
from traceanalyzer.passes.idle.gaps import Gaps
from traceanalyzer.passes.idle.pieces import Pieces, joined, made
from traceanalyzer.passes.operations import NULL, Operations
from traceanalyzer.passes.scope import Scope
from traceanalyzer.schema.kinds import EventKind
from traceanalyzer.store.database import first_row

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Unlaunched:
    """When the first call was recorded (None: never), and of the gaps without a launch whether their operation was in
    flight when recording began, and why that is not known."""

    first_call_ns: int | None
    in_flight: NDArray[np.bool_]
    reason: NDArray[np.int8]

    def pieces(self, gaps: Gaps, which: NDArray[np.intp]) -> Pieces:
        """The pieces of some of these gaps. The first call cuts a gap that operations in flight end."""
        start, end = gaps.start[which], gaps.end[which]
        flying, reason = self.in_flight[which], self.reason[which]
        call = np.iinfo(np.int64).max if self.first_call_ns is None else self.first_call_ns
        recorded = np.where(flying, np.clip(call, start, end), end)
        late = np.minimum(recorded + LAUNCH_LATENCY_NS, end)
        return joined(
            [
                made(which, start, recorded, int(Cause.UNATTRIBUTED), reason=reason),
                made(which, recorded, late, int(Cause.DEVICE_GAP)),
                made(which, late, end, int(Cause.DEVICE_WAIT)),
            ]
        )


def load_unlaunched(scope: Scope, ops: Operations, gaps: Gaps) -> Unlaunched:
    """What can be said of gaps without a launch."""
    row = first_row(
        scope.connection.execute(
            f"SELECT min(start_ns) FROM stored.cpu_events WHERE capture = ? AND kind = {int(EventKind.API_CALL)}",
            [ops.device.capture],
        )
    )
    first_call = row[0] if row else None
    in_flight, reason = np.zeros(len(gaps), bool), np.zeros(len(gaps), np.int8)
    bare = np.flatnonzero(gaps.thread < 0)
    if not len(bare):
        return Unlaunched(first_call, in_flight, reason)
    flying, known_stream = _in_flight(scope, ops)
    op = gaps.next_op[bare]
    in_flight[bare] = flying[op]
    reason[bare] = int(Reason.LAUNCH_NOT_RECORDED)
    reason[bare[flying[op] & known_stream[op]]] = int(Reason.LAUNCHED_BEFORE_RECORDING)
    if first_call is None:
        reason[bare] = int(Reason.NO_CALLS_RECORDED)
    return Unlaunched(first_call, in_flight, reason)


def _in_flight(scope: Scope, ops: Operations) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which operations were in flight when recording began: the first ones of each stream that have no launch.

    Second: whether the operation's stream has any launch in the file; without one it is not known to be in flight.
    """
    got = scope.connection.execute(
        """SELECT process, stream, min(start_ns) FROM stored.gpu_ops
        WHERE capture = ? AND device = ? AND launch_event_id IS NOT NULL GROUP BY ALL""",
        [ops.device.capture, ops.device.device],
    ).fetchall()
    first = {(NULL if p is None else p, NULL if s is None else s): start for p, s, start in got}
    streams = groups(ops.process, ops.stream)
    keys = zip(ops.process[streams.row].tolist(), ops.stream[streams.row].tolist(), strict=True)
    limits = np.array([first.get(key, NULL) for key in keys], np.int64)[streams.of_row]
    known = limits != NULL
    return (ops.launch == NULL) & known & (ops.original_start <= limits), known
