"""Steps of a capture: marks of the host, and where each step begins and ends on a device."""

import re
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.passes.operations import NULL, Operations, clip, load_operations, window_of
from traceanalyzer.passes.scope import DeviceOfCapture, Scope
from traceanalyzer.schema.kinds import EventKind
from traceanalyzer.store.derive import step_marks

Ints = NDArray[np.int64]
WARMUP_FACTOR = 1.5
"""Leading device steps longer than this times the median of the rest are warm-up."""

INTERLEAVED_SHARE = 0.1
"""Share of a device step's length for which its operations may run on beside those of the next step."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A step as the host marked it: to the next mark's start, the last one to its mark's end."""

    process: int
    step: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class DeviceSteps:
    """Steps on a device, in order: step n begins where the gap before its first operation begins.

    Steps in which nothing was launched on the device are not among them.
    """

    step: Ints
    start: Ints
    end: Ints

    def __len__(self) -> int:
        return len(self.step)


def load_marks(scope: Scope, capture: int) -> list[Mark]:
    """Step marks of a capture: those stored, or the ranges that `--step-range` matches."""
    if scope.selection.step_range is None:
        rows = scope.connection.execute(
            "SELECT process, step, start_ns, end_ns FROM stored.steps WHERE capture = ? ORDER BY process, start_ns",
            [capture],
        ).fetchall()
        return [Mark(*row) for row in rows]
    pattern = re.compile(scope.selection.step_range)
    names = scope.connection.execute(
        f"""SELECT DISTINCT n.name_id, n.text FROM stored.cpu_events e JOIN stored.names n ON n.name_id = e.name
        WHERE e.capture = ? AND e.kind IN ({int(EventKind.RANGE)}, {int(EventKind.STEP_MARK)})""",
        [capture],
    ).fetchall()
    matching = {name_id: text for name_id, text in names if pattern.fullmatch(text)}
    found = scope.connection.execute(
        f"""SELECT process, coalesce(thread, {NULL}), name, start_ns, end_ns FROM stored.cpu_events
        WHERE capture = ? AND kind IN ({int(EventKind.RANGE)}, {int(EventKind.STEP_MARK)})
            AND name IN (SELECT unnest(?::INTEGER[])) AND process IS NOT NULL
        ORDER BY process, thread, start_ns, end_ns DESC""",
        [capture, list(matching)],
    ).fetchall()
    codes = {name_id: k for k, name_id in enumerate(matching)}
    rows = [(process, thread, codes[name], start, end) for process, thread, name, start, end in found]
    return [
        Mark(process, step, start, end)
        for process, _, step, _, start, end, _ in step_marks(rows, list(matching.values()))
    ]


def with_steps(scope: Scope, ops: Operations) -> Operations:
    """The operations with the step in which each was launched, worked out anew where `--step-range` says so."""
    if scope.selection.step_range is None:
        return ops
    step = np.full(len(ops), NULL, np.int64)
    marks = load_marks(scope, ops.device.capture)
    for process in {m.process for m in marks}:
        mine = [m for m in marks if m.process == process]
        start, end, number = (np.array([getattr(m, f) for m in mine], np.int64) for f in ("start", "end", "step"))
        k = np.searchsorted(start, ops.launched, side="right") - 1
        inside = (ops.process == process) & (ops.launched != NULL) & (k >= 0) & (ops.launched < end[np.maximum(k, 0)])
        step[inside] = number[k[inside]]
    return replace(ops, step=step)


def device_steps(ops: Operations) -> DeviceSteps:
    """Device steps by the operations launched in each step. A step's end is the next one's start, the last one's its
    last operation's end; where launches of two steps interleave on the device, a step begins no earlier than the one
    before it."""
    inside = ops.step != NULL
    if not inside.any():
        none = np.zeros(0, np.int64)
        return DeviceSteps(none, none, none)
    step, first_at = np.unique(ops.step[inside], return_index=True)
    first = ops.start[inside][first_at]
    order = np.lexsort((step, first))
    step, first = step[order], first[order]
    gap_start, gap_end = ops.gaps()
    k = np.minimum(np.searchsorted(gap_end, first), max(len(gap_end) - 1, 0))
    # An operation of no length splits no gap, so it may lie inside of one.
    inside_gap = (gap_start[k] < first) & (first <= gap_end[k]) if len(gap_end) else False
    start = np.where(inside_gap, gap_start[k], first) if len(gap_end) else first
    start = np.maximum.accumulate(start)
    last = int(ops.end[ops.step == step[-1]].max())
    return DeviceSteps(step, start, np.append(start[1:], max(last, int(start[-1]))))


def first_is_incomplete(ops: Operations, steps: DeviceSteps) -> bool:
    """Whether the first device step has nothing before it: then its beginning was not recorded."""
    return len(steps) > 0 and int(steps.start[0]) <= ops.span[0]


def cut_by_window(scope: Scope, ops: Operations, steps: DeviceSteps) -> NDArray[np.bool_]:
    """Which device steps are not wholly inside the selected window."""
    window = window_of(scope, ops.device.capture)
    if window is None:
        return np.zeros(len(steps), np.bool_)
    marked_anew = scope.selection.step_range is not None
    everything = with_steps(scope, load_operations(scope, ops.device, whole=True, launched=marked_anew))
    known = device_steps(everything)
    inside = known.step[(known.start >= window[0]) & (known.end <= window[1])]
    return ~np.isin(steps.step, inside)


def counted_steps(scope: Scope, ops: Operations, steps: DeviceSteps) -> NDArray[np.bool_]:
    """Which device steps count for rates: not warm-up, nor a first one whose beginning was not recorded, unless it is
    alone, nor those that the window cuts.
    """
    counted = ~cut_by_window(scope, ops, steps)
    skipped = warmup_count(steps.end - steps.start, scope.selection.warmup)
    if len(steps) > 1:
        skipped = max(skipped, int(first_is_incomplete(ops, steps)))
    counted[:skipped] = False
    return counted


def selected(scope: Scope, steps: DeviceSteps) -> NDArray[np.bool_]:
    """Which device steps `--steps` selects: all of them without."""
    first, last = scope.selection.steps or (NULL, np.iinfo(np.int64).max)
    inside: NDArray[np.bool_] = (steps.step >= first) & (steps.step <= last)
    return inside


def run_on(ops: Operations, steps: DeviceSteps) -> int:
    """How many device steps have operations that run on for a part of the step's length after one that was launched in
    a later step has begun: then the work of neighbouring steps interleaves.
    """
    if len(steps) < 2:
        return 0
    inside = ops.step != NULL
    # By the place of its step among the steps, which stand in the order in which they begin.
    order = np.argsort(steps.step)
    place = order[np.searchsorted(steps.step, ops.step[inside], sorter=order)]
    last, first = np.full(len(steps), NULL), np.full(len(steps), np.iinfo(np.int64).max)
    np.maximum.at(last, place, ops.end[inside])
    np.minimum.at(first, place, ops.start[inside])
    later = np.minimum.accumulate(first[::-1])[::-1][1:]
    return int((last[:-1] - later > INTERLEAVED_SHARE * (steps.end - steps.start)[:-1]).sum())


def warmup_count(lengths: Ints, wanted: int | None) -> int:
    """How many leading steps are warm-up: `--warmup N`, else those longer than 1.5 x the median of the rest."""
    if wanted is not None:
        return min(wanted, len(lengths))
    count = 0
    while count < len(lengths) - 1 and lengths[count] > WARMUP_FACTOR * float(np.median(lengths[count + 1 :])):
        count += 1
    return count


def step_window(scope: Scope, ops: Operations) -> Operations:
    """The operations clipped to the device steps that `--steps` selects. None of them: no operations.

    A step begins with the gap before its first operation, so the span is that of the steps, not of the operations.
    """
    low, high = scope.selection.steps or (0, 0)
    steps = device_steps(with_steps(scope, ops))
    mine = (steps.step >= low) & (steps.step <= high)
    if not mine.any():
        return clip(ops, 0, 0)
    window = int(steps.start[mine].min()), int(steps.end[mine].max())
    return replace(clip(ops, *window), window=window)


def devices_of(scope: Scope, capture: int) -> list[DeviceOfCapture]:
    """The selected devices of a capture."""
    return [d for d in scope.devices if d.capture == capture]
