"""The split of a step that TensorBoard's profiler plugin showed: each instant goes to the first class that fits.

Classes by priority: Kernel, Memcpy, Memset, Communication, Runtime, DataLoader, CPU Exec, Other. A step begins where
the host's mark does, or later, where device work of the steps before it ends; it ends where the mark does, or later,
where the device work ends that calls wholly inside the mark launched. Trailing steps are left out where their device
work is missing, or less than 80 % of that of the step before (by operations). Source: `tb_plugin` of kineto, 0.4.3.

Known faults of the plugin are not repeated: it takes no `cuda_runtime` and `cuda_driver` rows for calls, counts marks
that are repeated on the device's rows, knows only some names of collectives, takes annotations of the DataLoader for
nothing, and begins anew with whole steps where the classes before fill them.
"""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.numeric.intervals import intersect, subtract, union
from traceanalyzer.passes.scope import Scope
from traceanalyzer.passes.step_marks import load_marks
from traceanalyzer.schema.kinds import EventKind, Lane, OpKind

Ints = NDArray[np.int64]
Intervals = tuple[Ints, Ints]
PARTS = ("Kernel", "Memcpy", "Memset", "Communication", "Runtime", "DataLoader", "CPU Exec", "Other")
"""The plugin's classes, by priority."""
WHOLE_STEP = 0.8
"""A trailing step with fewer operations than this share of those of the step before is not whole."""
_DATALOADER = re.compile(r"enumerate\(DataLoader\)#.*\.__next__|enumerate\(DataPipe\)#.*", re.DOTALL)
_COLLECTIVE = re.compile(r"(?:nccl|gloo):", re.IGNORECASE)
_OPERATOR, _CALL = int(EventKind.OPERATOR), int(EventKind.API_CALL)
_ANNOTATIONS = (int(EventKind.RANGE), int(EventKind.HOST_COMMUNICATION))


@dataclass(frozen=True, slots=True)
class Split:
    """Time of the steps of a process by part, in all; `rank` and `device` are null where it has none or several."""

    capture: int
    rank: int | None
    device: int | None
    ns: dict[str, int]
    n_steps: int


@dataclass(frozen=True, slots=True)
class _Work:
    """Device operations of a process with the calls that launched them; `known` is false where these are missing."""

    kind: Ints
    lane: Ints
    start: Ints
    end: Ints
    launch_start: Ints
    launch_end: Ints
    known: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Host:
    """Events of the host by the classes that they belong to."""

    communication: Intervals
    runtime: Intervals
    dataloader: Intervals
    operators: Intervals


def tensorboard_splits(scope: Scope, capture: int) -> list[Split]:
    """The split of each process of a capture that runs operations on a selected device; of a capture without devices
    one. A process without steps, operations and operators has none.

    Without steps it is of the time from the first operator to the end of the last one; without operators from the first
    device operation to the end of the last one.
    """
    devices = [d for d in scope.devices if d.capture == capture]
    found = scope.connection.execute(
        """SELECT process, list(DISTINCT device) FROM stored.gpu_ops
        WHERE capture = ? AND device IN (SELECT unnest(?::INTEGER[])) GROUP BY process ORDER BY process""",
        [capture, [d.device for d in devices]],
    ).fetchall()
    if len(found) < 2:  # what a file tells of the host may stand under other numbers than its operations
        found = [(None, [d.device for d in devices])]
    splits = []
    for process, mine in found:
        ranks = {d.rank for d in devices if d.device in mine}
        place = (capture, ranks.pop() if len(ranks) == 1 else None, mine[0] if len(mine) == 1 else None)
        if (split := _split(scope, process, place, mine)) is not None:
            splits.append(split)
    return splits


def _split(
    scope: Scope, process: int | None, place: tuple[int, int | None, int | None], devices: list[int]
) -> Split | None:
    work, host = _load_work(scope, place[0], process, devices), _load_host(scope, place[0], process)
    steps = _steps(_marks(scope, place[0], process), work, host, scope.selection.steps)
    if steps is None:
        return None
    left = union(*steps)
    ns: dict[str, int] = {}
    for name, (start, end) in zip(PARTS, _classes(work, host), strict=False):
        mine = union(start, end)
        ns[name] = _measure(intersect(*left, *mine))
        left = subtract(*left, *mine)
    ns[PARTS[-1]] = _measure(left)
    return Split(*place, ns, len(steps[0]))


def _load_work(scope: Scope, capture: int, process: int | None, devices: list[int]) -> _Work:
    got = scope.connection.execute(
        """SELECT o.kind, o.lane, o.start_ns, o.end_ns, coalesce(e.start_ns, 0) AS launch_start,
            coalesce(e.end_ns, 0) AS launch_end, e.start_ns IS NOT NULL AS known
        FROM stored.gpu_ops o
        LEFT JOIN stored.cpu_events e ON e.capture = o.capture AND e.event_id = o.launch_event_id
        WHERE o.capture = $capture AND o.device IN (SELECT unnest($devices::INTEGER[]))
            AND ($process IS NULL OR o.process = $process)""",
        {"capture": capture, "process": process, "devices": devices},
    ).fetchnumpy()
    return _Work(*(np.asarray(values) for values in got.values()))


def _load_host(scope: Scope, capture: int, process: int | None) -> _Host:
    got = scope.connection.execute(
        f"""SELECT kind::INTEGER AS kind, coalesce(name, -1)::INTEGER AS name, start_ns, end_ns FROM stored.cpu_events
        WHERE capture = $capture AND kind IN {(_CALL, _OPERATOR, *_ANNOTATIONS)}
            AND ($process IS NULL OR process = $process)""",
        {"capture": capture, "process": process},
    ).fetchnumpy()
    kind, name, start, end = (np.asarray(values) for values in got.values())
    named = kind != _CALL
    texts = scope.texts(np.unique(name[named]).tolist())
    loader = np.isin(name, [k for k, text in texts.items() if _DATALOADER.fullmatch(text)]) & named
    collective = np.isin(name, [k for k, text in texts.items() if _COLLECTIVE.match(text)]) & named
    classes = (collective, ~named, loader, (kind == _OPERATOR) & ~loader & ~collective)
    return _Host(*((start[which], end[which]) for which in classes))


def _classes(work: _Work, host: _Host) -> list[Intervals]:
    """Intervals of every part but the last, by priority; they may overlap."""
    communicates = work.lane == int(Lane.COMMUNICATION)
    kernel = np.isin(work.kind, (int(OpKind.KERNEL), int(OpKind.GRAPH))) & ~communicates
    of_kind = [kernel, work.kind == int(OpKind.MEMCPY), work.kind == int(OpKind.MEMSET)]
    device = [(work.start[mine], work.end[mine]) for mine in of_kind]
    start = np.append(work.start[communicates], host.communication[0])
    end = np.append(work.end[communicates], host.communication[1])
    return [*device, (start, end), host.runtime, host.dataloader, host.operators]


def _steps(
    marks: tuple[Ints, Ints, Ints], work: _Work, host: _Host, selected: tuple[int, int] | None
) -> Intervals | None:
    """Starts and ends of the selected steps; None where there is nothing to begin with."""
    start, end, number = marks
    if not len(start):
        around = [each for each in (host.operators, host.dataloader, host.communication) if len(each[0])]
        if not around and len(work.start):
            around = [(work.start, work.end)]
        if not around:
            return None
        start = np.array([min(int(each[0].min()) for each in around)], np.int64)
        end, number = np.array([max(int(each[1].max()) for each in around)], np.int64), np.zeros(1, np.int64)
    start, end = _with_device_work(start, end, work)
    if selected is not None:
        mine = (number[: len(start)] >= selected[0]) & (number[: len(start)] <= selected[1])
        start, end = start[mine], end[mine]
    return (start, end) if len(start) else None


def _marks(scope: Scope, capture: int, process: int | None) -> tuple[Ints, Ints, Ints]:
    """The host's marks in order: starts, own ends and numbers. Of several processes those of the first one."""
    if scope.selection.step_range is None:
        rows = scope.connection.execute(
            """SELECT process, step, start_ns, mark_end_ns FROM stored.steps
            WHERE capture = $capture AND ($process IS NULL OR process = $process) ORDER BY process, start_ns""",
            {"capture": capture, "process": process},
        ).fetchall()
    else:
        marks = load_marks(scope, capture)
        rows = [(m.process, m.step, m.start, m.end) for m in marks if process is None or m.process == process]
    mine = [row for row in rows if row[0] == rows[0][0]]
    start, end, number = (np.array([row[k] for row in mine], np.int64) for k in (2, 3, 1))
    return start, end, number


def _with_device_work(start: Ints, end: Ints, work: _Work) -> Intervals:
    """The steps with the device work that calls wholly inside them launched, without trailing ones that lack it."""
    k = np.searchsorted(start, work.launch_start, side="right") - 1
    inside = work.known & (k >= 0) & (work.launch_end <= end[np.maximum(k, 0)])
    if not inside.any():
        return start, end
    count = np.bincount(k[inside], minlength=len(start))
    first, last = np.full(len(start), np.iinfo(np.int64).max), np.full(len(start), np.iinfo(np.int64).min)
    np.minimum.at(first, k[inside], work.start[inside])
    np.maximum.at(last, k[inside], work.end[inside])
    before = int(start[0])
    if count[0]:
        earlier = work.end[~inside & (work.end < first[0])]
        before = max(before, int(earlier.max(initial=before)))
    until = np.maximum(np.maximum.accumulate(np.maximum(end, last)), before)
    begin = np.maximum(start, np.append(before, until[:-1]))
    keep = int(np.flatnonzero(count)[-1]) + 1
    if keep > 1 and WHOLE_STEP * count[keep - 2] > count[keep - 1]:
        keep -= 1
    return begin[:keep], np.maximum(until, begin)[:keep]


def _measure(intervals: Intervals) -> int:
    return int((intervals[1] - intervals[0]).sum())
