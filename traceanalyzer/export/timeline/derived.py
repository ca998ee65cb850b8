"""What was derived of each device: its steps, and its gaps with their causes."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.export.timeline.clocks import TimelineClock
from traceanalyzer.export.timeline.places import DeviceRows, Places
from traceanalyzer.export.timeline.stream import BATCH_ROWS, EventStream, Texts, json_text, slice_text
from traceanalyzer.numeric.grouping import groups
from traceanalyzer.passes.causes import Cause, Reason
from traceanalyzer.passes.idle.lanes import DeviceGaps, devices_with_gaps
from traceanalyzer.passes.idle.pieces import Pieces
from traceanalyzer.passes.idle.stacks import StackTree
from traceanalyzer.passes.scope import Scope
from traceanalyzer.passes.step_marks import counted_steps, device_steps, selected
from traceanalyzer.schema.timeline_file import DERIVED
from traceanalyzer.store.ddl import quoted

Ints = NDArray[np.int64]
STEPS_ROW, GAPS_ROW, COMMUNICATION_ROW = -30, -20, -10
"""Places of derived rows among those of their device: before its streams."""
MOST_FRAMES = 64
"""Frames of a stack that a gap has; of deeper stacks the innermost."""


def write_steps_and_gaps(scope: Scope, places: Places, clock: TimelineClock, stream: EventStream) -> None:
    """Writes steps and gaps of every device."""
    tree = StackTree(scope)
    for part in devices_with_gaps(scope, tree):
        rows = places.first_of(part.device.capture, part.device.device)
        if rows is not None:
            _write_steps(scope, clock, stream, rows, part)
            _Gaps(scope, clock, stream, rows, tree).write(part)


def _write_steps(scope: Scope, clock: TimelineClock, stream: EventStream, rows: DeviceRows, part: DeviceGaps) -> None:
    steps = device_steps(part.ops)
    counted = counted_steps(scope, part.ops, steps)
    mine = np.flatnonzero(selected(scope, steps) & (steps.end > steps.start))
    if not len(mine):
        return
    process = rows.process
    row = process.row("steps", "steps of the device", STEPS_ROW)
    start, end = steps.start[mine], steps.end[mine]
    ts, until = (clock.timeline(process.capture, process.rank, t) for t in (start, end))
    arguments = """',"step":' || r.step, ',"counted":' || r.counted"""
    stream.add_rows(
        {
            "pid": np.full(len(mine), process.pid),
            "tid": row.spread(start, end),
            "ts": ts,
            "dur": until - ts,
            "step": steps.step[mine],
            "counted": counted[mine],
        },
        Texts(slice_text(quoted(f"{DERIVED}step"), """concat('"step ', r.step, '"')""", arguments)),
    )


class _Gaps:
    """Writes the pieces of the gaps of a device, those of one cause and blame together.

    Texts of equal causes and stacks are made once a batch.
    """

    def __init__(
        self, scope: Scope, clock: TimelineClock, stream: EventStream, rows: DeviceRows, tree: StackTree
    ) -> None:
        self._scope, self._clock, self._stream, self._tree = scope, clock, stream, tree
        self._process = rows.process
        self._row = rows.process.row("gaps", f"gaps ({scope.selection.lane} lane)", GAPS_ROW)

    def write(self, part: DeviceGaps) -> None:
        for pieces in part.pieces():
            for first in range(0, len(pieces), BATCH_ROWS):
                self._write(*self._alike(pieces.take(slice(first, first + BATCH_ROWS))))

    def _alike(self, pieces: Pieces) -> tuple[Pieces, Ints]:
        """Neighbouring pieces of one cause and blame as one, with the stack of the longest, and how many each was."""
        if not len(pieces):
            return pieces, np.zeros(0, np.int64)
        blame = np.append(self._tree.blame_label(), -1)[pieces.node]
        told = (pieces.gap, pieces.cause, pieces.reason, blame, pieces.refill, pieces.sampled)
        fresh = np.append(True, np.logical_or.reduce([values[1:] != values[:-1] for values in told]))
        first = np.flatnonzero(fresh)
        last = np.append(first[1:] - 1, len(pieces) - 1)
        longest = np.lexsort((-pieces.length, np.cumsum(fresh)))[first]
        return replace(pieces.take(longest), start=pieces.start[first], end=pieces.end[last]), last - first + 1

    def _write(self, pieces: Pieces, count: Ints) -> None:
        if not len(pieces):
            return
        process = self._process
        kinds = groups(pieces.cause, pieces.reason, pieces.node)
        names, members = [], []
        for k in kinds.row.tolist():
            cause, reason = Cause(int(pieces.cause[k])).text, Reason(int(pieces.reason[k])).text
            name, about = self._texts(cause, reason, int(pieces.node[k]))
            names.append(name)
            members.append(about)
        connection = self._scope.connection
        texts = {"code": np.arange(len(kinds)), "name": _objects(names), "members": _objects(members)}
        connection.register("timeline_causes", texts)
        start, end = np.asarray(pieces.start), np.asarray(pieces.end)
        ts, until = (self._clock.timeline(process.capture, process.rank, t) for t in (start, end))
        flags = """CASE WHEN r.pieces > 1 THEN ',"pieces":' || r.pieces END,
            CASE WHEN r.refill THEN ',"refill":true' END, CASE WHEN r.sampled THEN ',"sampled":true' END"""
        try:
            self._stream.add_rows(
                {
                    "pid": np.full(len(pieces), process.pid),
                    "tid": self._row.spread(start, end),
                    "ts": ts,
                    "dur": until - ts,
                    "code": kinds.of_row,
                    "gap": np.asarray(pieces.gap),
                    "pieces": count,
                    "refill": np.array(pieces.refill),
                    "sampled": np.array(pieces.sampled),
                },
                Texts(
                    slice_text(quoted(f"{DERIVED}gap"), "c.name", f"""',"gap":' || r.gap, {flags}, c.members"""),
                    "JOIN timeline_causes c ON c.code = r.code",
                ),
            )
        finally:
            connection.unregister("timeline_causes")

    def _texts(self, cause: str, reason: str | None, node: int) -> tuple[str, str]:
        """The name of pieces, and the members of their arguments, as JSON."""
        blame, frames = self._tree.blame_text(node), self._tree.frames(node)
        about: dict[str, object] = {"cause": cause}
        about |= {key: value for key, value in (("reason", reason), ("blame", blame)) if value is not None}
        if len(frames) > MOST_FRAMES:
            about["outer_frames_left_out"] = len(frames) - MOST_FRAMES
        about["stack"] = frames[-MOST_FRAMES:]
        return json_text(f"{cause}: {blame}" if blame else cause), "," + json_text(about)[1:-1]


def _objects(values: list[str]) -> NDArray[np.object_]:
    out = np.empty(len(values), object)
    out[:] = values
    return out
