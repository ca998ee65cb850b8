"""Streams: how busy each was, which ran at the same time, and how many operations ran at once."""

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.numeric.intervals import depths, intersect, union
from traceanalyzer.passes.answer import Answer, Finding, Frame, TableSpec
from traceanalyzer.passes.chosen import warmup_warning
from traceanalyzer.passes.columns import CAPTURE, DEVICE, END, RANK, START
from traceanalyzer.passes.gaps import nothing_selected
from traceanalyzer.passes.operations import NULL, Operations, load_operations
from traceanalyzer.passes.scope import DeviceOfCapture, Scope
from traceanalyzer.passes.step_marks import step_window
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.units import Unit, counted, format_value

Ints = NDArray[np.int64]

BUSIEST = 16
"""Streams of a device whose pairs are compared: 120 pairs at most."""

LEAST_SHARE = 0.001
"""Share of the busy time with several operations at once from which on it is said."""

PROCESS = Column("process", Type.INT64, "Process that the stream belongs to.")
STREAM = Column("stream", Type.INT64, "Stream, as the source numbers it within its process.")

STREAMS = TableSpec(
    "streams",
    "Streams of each device, the busiest first.",
    (
        CAPTURE,
        RANK,
        DEVICE,
        PROCESS,
        STREAM,
        Column("n_ops", Type.INT64, "Operations.", Unit.COUNT),
        Column("busy_ns", Type.INT64, "Time in which an operation of the stream runs.", Unit.NS),
        Column("share", Type.FLOAT64, "The same as a share of the device's span.", Unit.SHARE),
        START,
        END,
    ),
)
OVERLAP = TableSpec(
    "overlap",
    f"Time in which both streams of a pair run; pairs of the {BUSIEST} busiest streams of a device.",
    (
        CAPTURE,
        RANK,
        DEVICE,
        PROCESS,
        STREAM,
        Column("other_process", Type.INT64, "Process of the other stream."),
        Column("other_stream", Type.INT64, "The other stream."),
        Column("overlap_ns", Type.INT64, "Time in which both run.", Unit.NS),
        Column("share", Type.FLOAT64, "The same as a share of the less busy stream's time.", Unit.SHARE),
    ),
)
CONCURRENCY = TableSpec(
    "concurrency",
    "How long exactly so many operations of a device run at once; the times add up to its busy time.",
    (
        CAPTURE,
        RANK,
        DEVICE,
        Column("operations", Type.INT64, "Operations that run at once.", Unit.COUNT),
        Column("ns", Type.INT64, "Time.", Unit.NS),
        Column("share", Type.FLOAT64, "Share of the device's busy time.", Unit.SHARE),
    ),
    cut=False,
)


def streams(scope: Scope) -> Answer:
    """Tables `streams`, `overlap` and `concurrency`. Times in ns, exact: measures of unions, never sums of durations.

    A window, and the device steps of `--steps`, cut operations at their edges, as they do for `gaps`.
    """
    rows: dict[str, list[tuple[object, ...]]] = {"streams": [], "overlap": [], "concurrency": []}
    findings: list[Finding] = []
    warnings = [*scope.warnings, *warmup_warning(scope)]
    for device in scope.devices:
        ops = load_operations(scope, device)
        if scope.selection.steps is not None:
            ops = step_window(scope, ops)
        if not len(ops):
            continue
        place = (device.capture, device.rank, device.device)
        unions = _by_stream(ops)
        span = max(ops.span[1] - ops.span[0], 1)
        for (process, stream), (count, low, high, first, last) in unions.items():
            busy = int((high - low).sum())
            rows["streams"].append((*place, _null(process), _null(stream), count, busy, busy / span, first, last))
        rows["overlap"] += [(*place, *pair) for pair in _pairs(unions)]
        running, ns = depths(ops.start, ops.end, *ops.span)
        busy = int(ns[running > 0].sum())
        rows["concurrency"] += [
            (*place, n, time, time / busy) for n, time in zip(running.tolist(), ns.tolist(), strict=True) if n
        ]
        findings += _finding(scope, device, busy, int(ns[running > 1].sum()), len(unions))
        if len(unions) > BUSIEST:
            warnings.append(f"{scope.whose(device)} has {len(unions):,} streams: pairs of the {BUSIEST} busiest only")
    if not rows["streams"]:
        warnings.append(nothing_selected(scope))
    rows["streams"].sort(key=lambda r: (-int(str(r[6])), *_ordered(r[0], r[2], r[3], r[4])))
    rows["overlap"].sort(key=lambda r: (-int(str(r[7])), *_ordered(r[0], r[2], r[3], r[4], r[5], r[6])))
    return Answer(
        "streams",
        {s.name: Frame.of_rows(s, rows[s.name]) for s in (STREAMS, OVERLAP, CONCURRENCY)},
        findings,
        warnings,
        default_table="streams",
        notes=[scope.note()],
    )


_Unions = dict[tuple[int, int], tuple[int, Ints, Ints, int, int]]


def _by_stream(ops: Operations) -> _Unions:
    """Of each (process, stream) its number of operations, their union, its first start and last end."""
    processes, of_process = np.unique(ops.process, return_inverse=True)
    numbers, of_stream = np.unique(ops.stream, return_inverse=True)
    which = of_process.reshape(-1) * len(numbers) + of_stream.reshape(-1)
    order = np.argsort(which, kind="stable")
    distinct, first_at = np.unique(which[order], return_index=True)
    out: _Unions = {}
    for each, mine in zip(distinct.tolist(), np.split(order, first_at[1:]), strict=True):
        process, stream = int(processes[each // len(numbers)]), int(numbers[each % len(numbers)])
        start, end = ops.start[mine], ops.end[mine]
        out[process, stream] = (len(mine), *union(start, end), int(start.min()), int(end.max()))
    return out


def _pairs(unions: _Unions) -> list[tuple[object, ...]]:
    busy = {key: int((high - low).sum()) for key, (_, low, high, _, _) in unions.items()}
    busiest = sorted(unions, key=lambda key: (-busy[key], key))[:BUSIEST]
    out: list[tuple[object, ...]] = []
    for one, two in combinations(sorted(busiest), 2):
        start, end = intersect(*unions[one][1:3], *unions[two][1:3])
        both, less = int((end - start).sum()), min(busy[one], busy[two])
        out.append((*map(_null, one), *map(_null, two), both, both / less if less else None))
    return out


def _null(value: int) -> int | None:
    return None if value == NULL else value


def _ordered(*values: object) -> tuple[int, ...]:
    return tuple(NULL if value is None else int(str(value)) for value in values)


def _finding(scope: Scope, device: DeviceOfCapture, busy: int, several: int, count: int) -> list[Finding]:
    """What share of the busy time runs several operations at once, where that is worth a sentence."""
    if not busy or several < LEAST_SHARE * busy:
        return []
    share = format_value(several / busy, Unit.SHARE)
    text = f"{share} of the busy time of {scope.whose(device)} runs several operations at once"
    text += f", on {counted(count, 'stream')}"
    return [Finding("concurrency", text, device.rank, None)]
