"""Copies of a capture: what their calls wait for, and until when."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.passes.causes import Cause, is_asynchronous_copy
from traceanalyzer.passes.idle.threads import ThreadEvents
from traceanalyzer.passes.scope import Scope
from traceanalyzer.schema.kinds import CopyKind, MemoryKind, OpKind

Ints = NDArray[np.int64]

PAGEABLE = (
    f"((o.copy_kind = {int(CopyKind.HTOD)} AND o.source_memory = {int(MemoryKind.PAGEABLE)})"
    f" OR (o.copy_kind = {int(CopyKind.DTOH)} AND o.destination_memory = {int(MemoryKind.PAGEABLE)}))"
)
"""SQL: the copy `o` reads or writes pageable host memory."""


@dataclass(frozen=True, slots=True)
class Copies:
    """Copy calls by the numbers of their events: when the device began to copy, and the causes before and after."""

    event: Ints
    begun: Ints
    before: NDArray[np.int8]
    after: NDArray[np.int8]

    def of_thread(self, events: ThreadEvents) -> NDArray[np.int32]:
        """The copy of each event of a thread, -1 where it is none; one more -1 at the end, for no event.

        A copy call of the driver inside of one of the runtime is of the same copy.
        """
        out = np.full(len(events) + 1, -1, np.int32)
        place = events.places(self.event)
        out[place[place >= 0]] = np.flatnonzero(place >= 0)
        calls = np.flatnonzero(events.tree.copy_calls[events.node] & (out[:-1] < 0))
        outer = np.flatnonzero(out >= 0)
        if len(calls) and len(outer):
            around = outer[np.maximum(np.searchsorted(outer, calls) - 1, 0)]
            inside = (around < calls) & (events.end(around) >= events.end(calls))
            out[calls[inside]] = out[around[inside]]
        return out

    def blocks_until(self, copy: NDArray[np.int32]) -> Ints:
        """Until when calls wait for the device; the least number where they do not, or are no copies (-1)."""
        waits = np.append(self.before == int(Cause.SYNC), False)[copy]
        return np.where(waits, np.append(self.begun, 0)[copy], np.iinfo(np.int64).min)


def load_copies(scope: Scope, capture: int) -> Copies:
    """All copies of a capture that have a call.

    Until its copy begins a call that blocks waits for the device (`sync`); from then on a copy of pageable memory is
    the host's work. A copy of pageable memory to the device is that from the beginning.
    """
    got = scope.connection.execute(
        f"""SELECT o.launch_event_id AS event, min(o.start_ns) AS begun,
            arg_min(o.copy_kind, o.start_ns)::INTEGER AS way, arg_min({PAGEABLE}, o.start_ns)::BOOLEAN AS pageable,
            any_value(e.name)::INTEGER AS name
        FROM stored.gpu_ops o JOIN stored.cpu_events e ON e.capture = o.capture AND e.event_id = o.launch_event_id
        WHERE o.capture = ? AND o.kind = {int(OpKind.MEMCPY)} GROUP BY o.launch_event_id ORDER BY o.launch_event_id""",
        [capture],
    ).fetchnumpy()
    name = np.ma.filled(np.ma.asarray(got["name"]), -1)
    names, inverse = np.unique(name, return_inverse=True)
    texts = scope.texts(names.tolist())
    blocks = np.array([not is_asynchronous_copy(texts.get(n, "")) for n in names.tolist()], bool)[inverse.reshape(-1)]
    way = np.ma.filled(np.ma.asarray(got["way"]), -1)
    pageable = np.ma.filled(np.ma.asarray(got["pageable"]), False).astype(bool)
    to_device, to_host = way == int(CopyKind.HTOD), way == int(CopyKind.DTOH)
    waits = (to_host & pageable) | blocks
    before = np.where(pageable & to_device, Cause.HOST_COPY, np.where(waits, Cause.SYNC, Cause.LAUNCH_CALL))
    after = np.where(pageable, Cause.HOST_COPY, Cause.LAUNCH_CALL)
    return Copies(
        np.asarray(got["event"], np.int64),
        np.asarray(got["begun"], np.int64),
        before.astype(np.int8),
        after.astype(np.int8),
    )
