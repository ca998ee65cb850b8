"""Gaps: when the devices were idle, why, and in whose code: one cause and one stack for every nanosecond."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.numeric.grouping import groups
from traceanalyzer.numeric.intervals import intersect
from traceanalyzer.passes.answer import Answer, Finding, Frame, TableSpec
from traceanalyzer.passes.attribution import Gaps, Pieces, attribute, find_gaps
from traceanalyzer.passes.causes import Cause, Reason
from traceanalyzer.passes.operations import NULL, Operations, busy_without_compute, load_operations
from traceanalyzer.passes.scope import DeviceOfCapture, Scope
from traceanalyzer.passes.stacks import StackTexts
from traceanalyzer.passes.step_marks import step_window, with_steps
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.schema.kinds import Lane, OpKind
from traceanalyzer.units import Unit

Ints = NDArray[np.int64]

BUSY_SHARE = 0.02
"""Idle time up to this share of the span is nothing to speak of."""

RUN = Column("run", Type.TEXT, "Run.")
CAPTURE = Column("capture", Type.INT32, "Capture: `captures.capture`.")
RANK = Column("rank", Type.INT32, "Rank; null where the device serves several, or none is known.")
DEVICE = Column("device", Type.INT32, "Device of the capture.")
CAUSE = Column("cause", Type.TEXT, "Cause of the idle time.")
REASON = Column("reason", Type.TEXT, "Of unattributed time: why.")
IDLE = Column("idle_ns", Type.INT64, "Idle time.", Unit.NS)
PIECES = Column("n_pieces", Type.INT64, "Pieces of gaps that it consists of.", Unit.COUNT)
STACK = Column("stack", Type.TEXT, "What was open on the launching thread, outermost first (a list).")
START = Column("start_ns", Type.INT64, "Start on the file's own clock.", Unit.NS)
END = Column("end_ns", Type.INT64, "End on the file's own clock.", Unit.NS)

DEVICES = TableSpec(
    "devices",
    "Span, busy and idle time of each device; span = busy + idle, and idle is the sum of the gaps.",
    (
        RUN,
        CAPTURE,
        RANK,
        DEVICE,
        START,
        END,
        Column("span_ns", Type.INT64, "From the first operation's start to the last one's end.", Unit.NS),
        Column(
            "busy_ns", Type.INT64, "Time in which an operation of the lane runs: the measure of their union.", Unit.NS
        ),
        Column("idle_ns", Type.INT64, "Time in which none runs.", Unit.NS),
        Column("compute_ns", Type.INT64, "Union of the compute lane.", Unit.NS),
        Column("communication_ns", Type.INT64, "Union of the communication lane.", Unit.NS),
        Column("copy_ns", Type.INT64, "Union of the copy lane.", Unit.NS),
        Column("n_ops", Type.INT64, "Operations.", Unit.COUNT),
        Column("n_gaps", Type.INT64, "Gaps.", Unit.COUNT),
        Column("idle_share", Type.FLOAT64, "Idle time as a share of the span.", Unit.SHARE),
        Column("lane", Type.TEXT, "Lane that busy and idle speak of: device (nothing runs) or compute."),
    ),
    cut=False,
)
CAUSES = TableSpec(
    "causes",
    "Idle time by cause; the causes of a device add up to its idle time.",
    (
        CAPTURE,
        RANK,
        DEVICE,
        CAUSE,
        REASON,
        IDLE,
        PIECES,
        Column("share", Type.FLOAT64, "Share of the device's idle time.", Unit.SHARE),
    ),
    cut=False,
)
STACKS = TableSpec(
    "stacks",
    "Idle time by cause and stack; the stacks of a device add up to its idle time.",
    (
        CAPTURE,
        RANK,
        DEVICE,
        Column("blame", Type.TEXT, "Innermost frame of the user's own code, else the innermost user range."),
        CAUSE,
        REASON,
        IDLE,
        PIECES,
        STACK,
    ),
)
GAPS = TableSpec(
    "gaps",
    "Gaps, the longest first.",
    (
        CAPTURE,
        RANK,
        DEVICE,
        Column("gap", Type.INT64, "Number of the gap on its device, in the order of time."),
        START,
        END,
        Column("duration_ns", Type.INT64, "Length.", Unit.NS),
        Column("step", Type.INT64, "Step of the operation that ends it."),
        Column("previous_op", Type.TEXT, "Operation that ended where the gap begins."),
        Column("next_op", Type.TEXT, "Operation that ends the gap."),
        Column("thread", Type.INT64, "Thread that launched it."),
        Column("cause", Type.TEXT, "Cause of the gap's largest piece."),
        STACK,
    ),
)
GAP_PIECES = TableSpec(
    "gap_pieces",
    "Pieces of gaps: the finest account of idle time.",
    (
        CAPTURE,
        RANK,
        DEVICE,
        Column("gap", Type.INT64, "Gap that it is a piece of."),
        CAUSE,
        REASON,
        START,
        END,
        Column("node_id", Type.INT64, "Stack: `stack_nodes.node_id`; null for an empty one."),
        Column(
            "refill", Type.BOOL, "Whether it is what a synchronisation costs after it returned; null: not worked out."
        ),
        Column("sampled", Type.BOOL, "Whether a sample stands for what happened."),
    ),
)


@dataclass(frozen=True, slots=True)
class DeviceGaps:
    """Operations, gaps and pieces of one device on the selected lane.

    `start`, `end` are the gaps of the lane; `pieces.gap` counts them. On the device lane these are `gaps`.
    """

    device: DeviceOfCapture
    ops: Operations
    start: Ints
    end: Ints
    next_op: Ints
    thread: Ints
    pieces: Pieces

    @property
    def idle_ns(self) -> int:
        """Idle time of the lane."""
        return int((self.end - self.start).sum())


def devices_with_gaps(scope: Scope) -> Iterator[DeviceGaps]:
    """Gaps and pieces of every selected device, one device at a time."""
    for device in scope.devices:
        ops = with_steps(scope, load_operations(scope, device))
        if scope.selection.steps is not None:
            ops = step_window(scope, ops)
        if not len(ops):
            continue
        gaps = find_gaps(scope, ops)
        pieces = attribute(scope, ops, gaps)
        if scope.selection.lane == "compute":
            yield _on_compute_lane(device, ops, gaps, pieces)
        else:
            yield DeviceGaps(device, ops, gaps.start, gaps.end, gaps.next_op, gaps.thread, pieces)


def _on_compute_lane(device: DeviceOfCapture, ops: Operations, gaps: Gaps, pieces: Pieces) -> DeviceGaps:
    """The holes between compute kernels; their device-idle part keeps its causes, the rest is what else ran."""
    start, end = ops.gaps_without(Lane.COMPUTE)
    outer = np.searchsorted(start, pieces.start, side="right") - 1
    parts = [(outer, pieces.start, pieces.end, pieces.cause, pieces.reason, pieces.node)]
    for busy, cause in zip(busy_without_compute(ops), (Cause.COMMUNICATION_ONLY, Cause.COPY_ONLY), strict=True):
        low, high = intersect(start, end, *busy)
        count = len(low)
        gap = np.searchsorted(start, low, side="right") - 1
        zero = np.zeros(count, np.int64)
        parts.append((gap, low, high, np.full(count, int(cause), np.int64), zero, np.full(count, -1, np.int64)))
    joined = [np.concatenate(columns) for columns in zip(*parts, strict=True)]
    order = np.lexsort((joined[1], joined[0]))
    lane_pieces = Pieces(*(column[order] for column in joined))
    if not np.array_equal(lane_pieces.lengths_by_gap(len(start)), end - start):
        raise AssertionError("the pieces of a compute gap do not add up to it")
    is_next = np.minimum(np.searchsorted(ops.start, end, side="left"), len(ops) - 1)
    inner = np.searchsorted(gaps.end, end)
    same = (
        (inner < len(gaps)) & (gaps.end[np.minimum(inner, len(gaps) - 1)] == end)
        if len(gaps)
        else np.zeros(len(end), bool)
    )
    thread = (
        np.where(same, gaps.thread[np.minimum(inner, max(len(gaps) - 1, 0))], NULL)
        if len(gaps)
        else np.full(len(end), NULL)
    )
    return DeviceGaps(device, ops, start, end, is_next.astype(np.int64), thread, lane_pieces)


def gaps(scope: Scope) -> Answer:
    """Span, busy and idle time of every device, and its idle time by cause, by stack and by gap.

    Tables `devices`, `gaps`, `causes`, `stacks`. Times in ns, exact. Causes and stacks add up to idle, to the ns.
    """
    rows: dict[str, list[tuple[object, ...]]] = {"devices": [], "causes": [], "stacks": [], "gaps": []}
    parts = list(devices_with_gaps(scope))
    top = scope.selection.top
    nodes: set[int] = set()
    stacks: list[tuple[DeviceOfCapture, int, int, int, int, int]] = []
    for part in parts:
        rows["devices"].append(_device_row(part, scope.selection.lane))
        rows["causes"] += _cause_rows(part)
        for cause, reason, node, idle, count in _grouped(part.pieces):
            stacks.append((part.device, cause, reason, node, idle, count))
    stacks.sort(key=lambda s: (-s[4], s[0].capture, s[0].device, s[1], s[2], s[3]))
    listed = stacks[:top] if top else stacks
    longest = _longest(parts, top)
    for part, which in zip(parts, longest, strict=True):
        nodes.update(_largest_piece(part.pieces, len(part.start))[1][which].tolist())
    nodes.update(s[3] for s in listed)
    texts = StackTexts(scope, nodes, scope.selection.user_code)
    for device, cause, reason, node, idle, count in listed:
        place = (device.capture, device.rank, device.device)
        why = Reason(reason).text
        rows["stacks"].append((*place, texts.blame(node), Cause(cause).text, why, idle, count, texts.frames(node)))
    for part, which in zip(parts, longest, strict=True):
        rows["gaps"] += _gap_rows(scope, part, which, texts)
    rows["gaps"].sort(key=lambda r: (-int(str(r[6])), r[0], r[2], r[3]))
    answer = Answer(
        "gaps",
        {s.name: Frame.of_rows(s, rows[s.name]) for s in (DEVICES, GAPS, CAUSES, STACKS)},
        warnings=[*scope.warnings, *graph_warnings(parts)],
        default_table="stacks",
        notes=[_heading(scope)],
    )
    answer.findings += _findings(answer)
    if not parts:
        answer.warnings.append(nothing_selected(scope))
    return answer


def graph_warnings(parts: Iterable[DeviceGaps]) -> list[str]:
    """Says where graphs count as compute because their nodes were not recorded."""
    count = sum(int((part.ops.kind == int(OpKind.GRAPH)).sum()) for part in parts)
    if not count:
        return []
    return [
        f"{count:,} graph launches were recorded without their nodes: each counts as one operation of the compute lane"
    ]


def nothing_selected(scope: Scope) -> str:
    """Why a question about devices has no rows, in a sentence."""
    if scope.devices and scope.selection.steps is not None:
        low, high = scope.selection.steps
        return f"no device step is among {low} to {high}; `traceanalyzer steps` lists them"
    if scope.devices and scope.selection.window_ns is not None:
        return "no operation runs in the window, so there is no span to speak of; choose a longer one"
    return "no device operations in what is selected; `traceanalyzer info` says why"


def _heading(scope: Scope) -> str:
    lane = "device lane: nothing runs" if scope.selection.lane == "device" else "compute lane: no compute kernel runs"
    return f"{scope.note()}; idle of the {lane}"


def _device_row(part: DeviceGaps, lane: str) -> tuple[object, ...]:
    device, ops = part.device, part.ops
    low, high = ops.span
    idle = part.idle_ns
    return (
        device.run,
        device.capture,
        device.rank,
        device.device,
        low,
        high,
        high - low,
        high - low - idle,
        idle,
        ops.lane_ns(Lane.COMPUTE),
        ops.lane_ns(Lane.COMMUNICATION),
        ops.lane_ns(Lane.COPY),
        len(ops),
        len(part.start),
        idle / (high - low) if high > low else None,
        lane,
    )


def _cause_rows(part: DeviceGaps) -> list[tuple[object, ...]]:
    pieces = part.pieces
    found = groups(pieces.cause, pieces.reason)
    keys = zip(pieces.cause[found.row].tolist(), pieces.reason[found.row].tolist(), strict=True)
    idle, count = found.sums(pieces.end - pieces.start), found.counts()
    place = (part.device.capture, part.device.rank, part.device.device)
    total = int(idle.sum())
    rows: list[tuple[object, ...]] = [
        (*place, Cause(cause).text, Reason(reason).text, ns, n, ns / total)
        for (cause, reason), ns, n in zip(keys, idle.tolist(), count.tolist(), strict=True)
    ]
    return sorted(rows, key=lambda r: (-int(str(r[5])), str(r[3])))


def _grouped(pieces: Pieces) -> Iterator[tuple[int, int, int, int, int]]:
    """(cause, reason, node, idle, count) of every distinct cause, reason and stack."""
    found = groups(pieces.cause, pieces.reason, pieces.node)
    keys = (column[found.row].tolist() for column in (pieces.cause, pieces.reason, pieces.node))
    yield from zip(*keys, found.sums(pieces.end - pieces.start).tolist(), found.counts().tolist(), strict=True)


def _longest(parts: list[DeviceGaps], top: int) -> list[Ints]:
    """Positions of the gaps to list, of each device: the longest of all devices together."""
    everything = (
        [(-int(d), p, k) for p, part in enumerate(parts) for k, d in enumerate((part.end - part.start).tolist())]
        if not top
        else []
    )
    if top:
        for p, part in enumerate(parts):
            duration = part.end - part.start
            best = np.argsort(-duration, kind="stable")[:top]
            everything += [(-int(duration[k]), p, int(k)) for k in best]
        everything = sorted(everything)[:top]
    return [np.array(sorted(k for _, p, k in everything if p == number), np.int64) for number in range(len(parts))]


def _largest_piece(pieces: Pieces, count: int) -> tuple[Ints, Ints]:
    """Cause and node of the largest piece of each gap; of equal ones the first."""
    if not len(pieces):
        return pieces.cause, pieces.node
    # Pieces come in the order of gaps and time, and every gap has one at least.
    begins = np.searchsorted(pieces.gap, np.arange(count))
    length = pieces.end - pieces.start
    largest = np.maximum.reduceat(length, begins)
    places = np.flatnonzero(length == largest[pieces.gap])
    first = places[np.searchsorted(pieces.gap[places], np.arange(count))]
    return pieces.cause[first], pieces.node[first]


def _gap_rows(scope: Scope, part: DeviceGaps, which: Ints, texts: StackTexts) -> list[tuple[object, ...]]:
    ops, device = part.ops, part.device
    cause, node = _largest_piece(part.pieces, len(part.start))
    by_end = np.argsort(ops.end, kind="stable")
    before = by_end[np.minimum(np.searchsorted(ops.end[by_end], part.start[which]), len(by_end) - 1)]
    after = part.next_op[which]
    names = scope.texts(np.unique(np.concatenate((ops.name[before], ops.name[after]))).tolist())
    rows: list[tuple[object, ...]] = []
    for k, previous, following in zip(which.tolist(), before.tolist(), after.tolist(), strict=True):
        start, end, thread, step = int(part.start[k]), int(part.end[k]), int(part.thread[k]), int(ops.step[following])
        rows.append(
            (
                device.capture,
                device.rank,
                device.device,
                k,
                start,
                end,
                end - start,
                None if step == NULL else step,
                names.get(int(ops.name[previous])),
                names.get(int(ops.name[following])),
                None if thread == NULL else thread,
                Cause(int(cause[k])).text,
                texts.frames(int(node[k])),
            )
        )
    return rows


def _findings(answer: Answer) -> list[Finding]:
    """The largest stacks of idle time in sentences, where a device is idle for more than 2 % of its span."""
    spans = {(d["capture"], d["device"]): d for d in answer.tables["devices"].rows()}
    out = [
        Finding(
            "device_busy",
            f"device {d['device']} is idle for {100 * d['idle_ns'] / d['span_ns']:.1f} % of its span: it is kept busy",
            d["rank"],
            d["idle_ns"],
        )
        for d in spans.values()
        if d["span_ns"] and d["idle_ns"] <= BUSY_SHARE * d["span_ns"]
    ]
    for row in answer.tables["stacks"].head(3).rows():
        device = spans[row["capture"], row["device"]]
        if not device["span_ns"] or row["idle_ns"] < BUSY_SHARE * device["span_ns"]:
            continue
        where = row["blame"] or (
            row["stack"][-1] if row["stack"] else row["reason"] or "nothing open on the launching thread"
        )
        whose = f"rank {row['rank']}, device {row['device']}" if row["rank"] is not None else f"device {row['device']}"
        text = (
            f"{row['idle_ns'] / 1e6:,.1f} ms of {device['idle_ns'] / 1e6:,.1f} ms idle on {whose}"
            f" ({100 * row['idle_ns'] / device['span_ns']:.1f} % of its span): {row['cause']} in {where}"
        )
        out.append(Finding(f"idle_{row['cause']}", text, row["rank"], row["idle_ns"]))
    return out


def gap_pieces(scope: Scope) -> Frame:
    """Every piece of every gap of the selected devices, as a table."""
    columns: dict[str, list[object]] = {c.name: [] for c in GAP_PIECES.columns}
    for part in devices_with_gaps(scope):
        pieces, count = part.pieces, len(part.pieces)
        columns["capture"] += [part.device.capture] * count
        columns["rank"] += [part.device.rank] * count
        columns["device"] += [part.device.device] * count
        columns["gap"] += pieces.gap.tolist()
        columns["cause"] += [Cause(c).text for c in pieces.cause.tolist()]
        columns["reason"] += [Reason(r).text for r in pieces.reason.tolist()]
        columns["start_ns"] += pieces.start.tolist()
        columns["end_ns"] += pieces.end.tolist()
        columns["node_id"] += [None if n < 0 else n for n in pieces.node.tolist()]
        columns["refill"] += [None] * count
        columns["sampled"] += [False] * count
    return Frame(GAP_PIECES, columns)
