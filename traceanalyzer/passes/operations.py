"""Operations of one device as arrays, clipped to the selected window."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.numeric.intervals import holes, measure, subtract, union
from traceanalyzer.passes.scope import DeviceOfCapture, Scope
from traceanalyzer.schema.kinds import Lane
from traceanalyzer.store.database import first_row

Ints = NDArray[np.int64]
NULL = np.iinfo(np.int64).min
"""Stands for null in arrays of numbers that may be negative."""


@dataclass(frozen=True, slots=True)
class Operations:
    """Operations of a device in the order of their start; nulls of `launch`, `step`, `launched` are `NULL`.

    `start`, `end` are clipped to the window, `original_start` is not. `launched` is when the launch call began.
    """

    device: DeviceOfCapture
    op_id: Ints
    start: Ints
    end: Ints
    original_start: Ints
    lane: Ints
    kind: Ints
    name: Ints
    process: Ints
    stream: Ints
    launch: Ints
    launched: Ints
    step: Ints
    window: tuple[int, int] | None = None
    """The selected device steps, where some are: then the span is theirs, with the gap that a step begins with."""

    def __len__(self) -> int:
        return len(self.op_id)

    @property
    def span(self) -> tuple[int, int]:
        """First start and last end, or the selected device steps; (0, 0) without operations."""
        if self.window is not None:
            return self.window
        return (int(self.start[0]), int(self.end.max())) if len(self) else (0, 0)

    def gaps(self) -> tuple[Ints, Ints]:
        """Maximal intervals of positive length inside the span with no operation running."""
        return holes(self.start, self.end, *self.span)

    def lane_union(self, *lanes: Lane) -> tuple[Ints, Ints]:
        """Union of the operations of some lanes."""
        mine = np.isin(self.lane, lanes)
        return union(self.start[mine], self.end[mine])

    def lane_ns(self, *lanes: Lane) -> int:
        """Measure of the union of some lanes."""
        mine = np.isin(self.lane, lanes)
        return measure(self.start[mine], self.end[mine])

    def gaps_without(self, *lanes: Lane) -> tuple[Ints, Ints]:
        """Maximal intervals of positive length inside the span with no operation of these lanes running."""
        mine = np.isin(self.lane, lanes)
        return holes(self.start[mine], self.end[mine], *self.span)


def load_operations(scope: Scope, device: DeviceOfCapture, *, whole: bool = False, launched: bool = True) -> Operations:
    """All operations of a device inside the selected window, sorted by start, launch and number.

    `whole` takes no notice of the window. Without `launched` it is not known when they were launched, but for those
    that start together with others.
    """
    got = scope.connection.execute(
        f"""SELECT o.op_id, o.start_ns, o.end_ns, o.lane, o.kind, coalesce(o.name, -1)::INTEGER AS name,
            coalesce(o.process, {NULL}) AS process, coalesce(o.stream, {NULL}) AS stream,
            coalesce(o.launch_event_id, {NULL}) AS launch, coalesce(o.step, {NULL}) AS step
        FROM stored.gpu_ops o WHERE o.capture = ? AND o.device = ?""",
        [device.capture, device.device],
    ).fetchnumpy()
    column = {name: np.asarray(values) for name, values in got.items()}
    start = column["start_ns"]
    together = np.isin(start, start[1:][start[1:] == start[:-1]]) if _ascends(start) else None
    if together is None:
        order = np.lexsort((column["op_id"], start))
        column = {name: values[order] for name, values in column.items()}
        start = column["start_ns"]
        together = np.isin(start, start[1:][start[1:] == start[:-1]])
    column["launched"] = _launched(scope, device, column["op_id"], None if launched else together)
    if together.any():
        last = np.where(column["launched"] == NULL, np.iinfo(np.int64).max, column["launched"])
        order = np.lexsort((column["op_id"], last, start))
        column = {name: values[order] for name, values in column.items()}
    start, end = column.pop("start_ns"), column.pop("end_ns")
    out = Operations(device=device, start=start, end=end, original_start=start, window=None, **column)
    window = window_of(scope, device.capture)
    return out if whole or window is None else clip(out, *window)


def _ascends(start: Ints) -> bool:
    return bool((start[1:] >= start[:-1]).all())


def _launched(
    scope: Scope, device: DeviceOfCapture, op_id: NDArray[np.integer], some: NDArray[np.bool_] | None
) -> Ints:
    """When operations were launched, `NULL` where that is not in the file; of `some` only, if these are given."""
    out = np.full(len(op_id), NULL, np.int64)
    if some is not None and not some.any():
        return out
    chosen = "" if some is None else "AND o.op_id IN (SELECT unnest($some::BIGINT[]))"
    got = scope.connection.execute(
        f"""SELECT o.op_id, e.start_ns FROM stored.gpu_ops o
        JOIN stored.cpu_events e ON e.capture = o.capture AND e.event_id = o.launch_event_id
        WHERE o.capture = $capture AND o.device = $device {chosen}""",
        {"capture": device.capture, "device": device.device} | ({} if some is None else {"some": op_id[some]}),
    ).fetchnumpy()
    order = np.argsort(op_id, kind="stable")
    out[order[np.searchsorted(op_id, got["op_id"], sorter=order)]] = got["start_ns"]
    return out


def window_of(scope: Scope, capture: int) -> tuple[int, int] | None:
    """The selected window on the clock of a capture."""
    if scope.selection.window_ns is None:
        return None
    first = first_operation(scope, capture)
    return first + scope.selection.window_ns[0], first + scope.selection.window_ns[1]


def first_operation(scope: Scope, capture: int) -> int:
    """Start of the first operation of a file, or of the first sample where it has none: windows count from there."""
    query = """SELECT coalesce(min(start_ns), (SELECT start_ns FROM stored.captures WHERE capture = $capture))
        FROM stored.gpu_ops WHERE capture = $capture"""
    row = first_row(scope.connection.execute(query, {"capture": capture}))
    return int(row[0]) if row and row[0] is not None else 0


def clip(ops: Operations, low: int, high: int) -> Operations:
    """The operations inside the half-open window, cut at its edges."""
    inside = (ops.start < high) & ((ops.end > low) | ((ops.start == ops.end) & (ops.start >= low)))
    picked = {
        name: getattr(ops, name)[inside]
        for name in (
            "op_id",
            "original_start",
            "lane",
            "kind",
            "name",
            "process",
            "stream",
            "launch",
            "launched",
            "step",
        )
    }
    start, end = np.maximum(ops.start[inside], low), np.minimum(ops.end[inside], high)
    order = np.argsort(start, kind="stable")
    return Operations(device=ops.device, start=start[order], end=end[order], **{k: v[order] for k, v in picked.items()})


def busy_without_compute(ops: Operations) -> tuple[tuple[Ints, Ints], tuple[Ints, Ints]]:
    """Where no compute operation runs but communication does; where neither runs but copies do."""
    compute = ops.lane_union(Lane.COMPUTE)
    communication = ops.lane_union(Lane.COMMUNICATION)
    kernels = ops.lane_union(Lane.COMPUTE, Lane.COMMUNICATION)
    return subtract(*communication, *compute), subtract(*ops.lane_union(Lane.COPY), *kernels)
