"""Gaps: when the devices were idle, why, and in whose code: one cause and one stack for every nanosecond."""

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.errors import UsageError
from traceanalyzer.passes.answer import Answer, Frame, TableSpec
from traceanalyzer.passes.causes import Cause, Reason
from traceanalyzer.passes.columns import CAPTURE, DEVICE, END, IDLE, IDLE_SHARE, PIECES, RANK, RUN, START
from traceanalyzer.passes.idle.accounts import DeviceAccount, thread_names
from traceanalyzer.passes.idle.findings import IdleFindings
from traceanalyzer.passes.idle.grouping import BY, GroupRow, group_rows, joined_groups
from traceanalyzer.passes.idle.lanes import DeviceGaps, devices_with_gaps
from traceanalyzer.passes.idle.lock_holders import LOCK
from traceanalyzer.passes.idle.scheduling import THREADS, thread_rows
from traceanalyzer.passes.idle.stacks import StackTree
from traceanalyzer.passes.idle.totals import LargestPieces
from traceanalyzer.passes.operations import NULL
from traceanalyzer.passes.scope import PROFILERS, TELEMETRY, DeviceOfCapture, Scope
from traceanalyzer.passes.selection import GROUPINGS
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.schema.kinds import Lane
from traceanalyzer.store.database import first_row
from traceanalyzer.units import Unit

Ints = NDArray[np.int64]

CAUSE = Column("cause", Type.TEXT, "Cause of the idle time.")
REASON = Column("reason", Type.TEXT, "Of unattributed time: why.")
BLAME = Column("blame", Type.TEXT, "Innermost frame of the user's own code, else the innermost user range.")
GAIN = Column(
    "gain_ns",
    Type.INT64,
    "Idle time per counted device step: what a step gains at most if all of it goes away. Null without steps.",
    Unit.NS,
)
STACK = Column("stack", Type.TEXT, "What was open on the launching thread, outermost first (a list).")

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
        IDLE_SHARE,
        GAIN,
    ),
    cut=False,
)
BLAMES = TableSpec(
    "blames",
    "Idle time by the frame of your own code that it is charged to, the largest gain first; they add up to idle.",
    (
        CAPTURE,
        RANK,
        DEVICE,
        BLAME,
        Column("cause", Type.TEXT, "Cause of the largest part."),
        IDLE,
        IDLE_SHARE,
        GAIN,
        Column("n_steps", Type.INT64, "Counted device steps in which it occurs.", Unit.COUNT),
        PIECES,
    ),
)
STACKS = TableSpec(
    "stacks",
    "Idle time by cause and stack; the stacks of a device add up to its idle time.",
    (
        CAPTURE,
        RANK,
        DEVICE,
        BLAME,
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
TABLES = (DEVICES, GAPS, CAUSES, STACKS, BLAMES, THREADS, LOCK)
"""Tables of every answer."""
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
        Column("refill", Type.BOOL, "Whether it is what a synchronisation costs after it returned."),
        Column("sampled", Type.BOOL, "Whether a sample stands for what happened."),
    ),
)


def gaps(scope: Scope) -> Answer:
    """Span, busy and idle time of every device, and its idle time by cause, blame, stack and gap.

    Tables `devices`, `gaps`, `causes`, `stacks`, `blames`, `threads`, `lock`, and `by` where `--by` says what to group
    by. Times in ns, exact. Causes, blames and stacks each add up to idle, to the ns; with `--under`, to what is under
    it.
    """
    if scope.selection.by is not None and scope.selection.by not in GROUPINGS:
        raise UsageError(f"--by {scope.selection.by}: give {', '.join(GROUPINGS)}")
    rows: dict[str, list[tuple[object, ...]]] = {spec.name: [] for spec in TABLES}
    top = scope.selection.top
    tree = StackTree(scope)
    stacks: list[tuple[DeviceOfCapture, int, int, int, int, int]] = []
    grouped: list[GroupRow] = []
    whole: dict[tuple[int, int], int] = {}
    findings = IdleFindings(scope)
    for part in devices_with_gaps(scope, tree):
        account = DeviceAccount(scope, tree, part)
        names = thread_names(scope, part.device)
        rows["devices"].append(_device_row(part, scope.selection.lane))
        rows["causes"] += _cause_rows(account)
        rows["blames"] += _blame_rows(account)
        rows["threads"] += thread_rows(scope, account, names)
        rows["lock"] += _lock_rows(account, names)
        rows["gaps"] += _gap_rows(scope, part, _longest(account, top), account.largest, tree)
        stacks += [(part.device, *group) for group in account.all.groups()]
        grouped += group_rows(scope, tree, account, names)
        whole[part.device.capture, part.device.device] = part.idle_ns
        findings.add(account, names)
    stacks.sort(key=lambda s: (-s[4], s[0].capture, s[0].device, s[1], s[2], s[3]))
    for device, cause, reason, node, idle, count in stacks[:top] if top else stacks:
        place = (device.capture, device.rank, device.device)
        why = Reason(reason).text
        rows["stacks"].append((*place, tree.blame_text(node), Cause(cause).text, why, idle, count, tree.frames(node)))
    rows["gaps"].sort(key=lambda r: (-int(str(r[6])), r[0], r[2], r[3]))
    rows["blames"].sort(key=_by_gain)
    tables = {spec.name: Frame.of_rows(spec, rows[spec.name]) for spec in TABLES}
    if scope.selection.by is not None:
        tables[BY.name] = Frame.of_rows(BY, joined_groups(scope, grouped, whole))
    if top:
        tables |= {name: tables[name].head(top) for name in ("gaps", "blames")}
    answer = Answer(
        "gaps",
        tables,
        warnings=list(scope.warnings),
        default_table="stacks" if scope.selection.by is None else BY.name,
        notes=[_heading(scope)],
    )
    answer.findings += findings.sentences()
    if rows["devices"] and not stacks and scope.selection.under is not None and any(whole.values()):
        answer.warnings.append(
            f"no idle time has a frame on its stack that --under {scope.selection.under} matches; it is a regular"
            " expression, and upper and lower case differ unless it begins with (?i)"
        )
    if not rows["devices"]:
        answer.warnings.append(nothing_selected(scope))
    return answer


def nothing_selected(scope: Scope) -> str:
    """Why a question about devices has no rows, in a sentence."""
    if scope.devices and scope.selection.steps is not None:
        low, high = scope.selection.steps
        return f"no device step is among {low} to {high}; `traceanalyzer steps` lists them"
    if scope.devices and scope.selection.window_ns is not None:
        return "no operation runs in the window, so there is no span to speak of; choose a longer one"
    return no_timeline(scope) or "no device operations in what is selected; `traceanalyzer info` says why"


def no_timeline(scope: Scope) -> str | None:
    """Says so where nothing but profiles of single kernels and telemetry is selected."""
    profiled, watched = len(scope.of_source(PROFILERS)), len(scope.of_source(TELEMETRY))
    if not scope.captures or profiled + watched < len(scope.captures):
        return None
    if not watched:
        return (
            "the captures hold profiled kernels only, and no timeline: `traceanalyzer throughput` says what limits them"
        )
    if not profiled:
        return "the captures hold telemetry only, and no timeline: `traceanalyzer metrics` shows what was sampled"
    return (
        "the captures hold profiled kernels and telemetry only, and no timeline: `traceanalyzer throughput` and"
        " `traceanalyzer metrics` show them"
    )


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


def _cause_rows(account: DeviceAccount) -> list[tuple[object, ...]]:
    sums: dict[tuple[int, int], list[int]] = {}
    for cause, reason, _node, idle, count in account.all.groups():
        known = sums.setdefault((cause, reason), [0, 0, 0])
        known[0] += idle
        known[1] += count
    for (cause, reason, _node), idle in account.gains().items():
        sums[cause, reason][2] += idle
    total = account.part.idle_ns
    rows: list[tuple[object, ...]] = [
        (*account.place, Cause(cause).text, Reason(reason).text, idle, count, idle / total, account.gain(counted))
        for (cause, reason), (idle, count, counted) in sums.items()
    ]
    return sorted(rows, key=lambda r: (-int(str(r[5])), str(r[3]), str(r[4])))


def _by_gain(row: tuple[object, ...]) -> tuple[object, ...]:
    """The place of a row of `blames`: what a step gains comes first, then the idle time."""
    capture, _, device, blame, _, idle, _, gain = row[:8]
    return -(int(str(gain)) if gain is not None else 0), -int(str(idle)), capture, device, str(blame)


def _blame_rows(account: DeviceAccount) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    total = account.part.idle_ns
    for blamed in account.blamed():
        cause = max(blamed.causes.items(), key=lambda item: (item[1], -item[0]))[0]
        share = blamed.idle_ns / total if total else None
        steps = len(blamed.steps) if account.n_steps > 0 else None
        row = (blamed.blame, Cause(cause).text, blamed.idle_ns, share, blamed.gain_ns, steps, blamed.n_pieces)
        rows.append((*account.place, *row))
    return rows


def _lock_rows(account: DeviceAccount, names: dict[tuple[int, int], str]) -> list[tuple[object, ...]]:
    return [
        (*account.place, process, thread, names.get((process, thread)), blame, idle, idle / account.lock.waited_ns)
        for process, thread, blame, idle in account.lock.rows()
    ]


def _longest(account: DeviceAccount, top: int) -> Ints:
    """Numbers of the gaps to list: the longest ones that are counted, or all of these."""
    part = account.part
    duration = part.end - part.start
    able = account.touched_gaps()
    if not top or len(able) <= top:
        return able
    length = duration[able]
    least = np.partition(length, len(length) - top)[len(length) - top]
    long = able[length >= least]
    return np.sort(long[np.argsort(-duration[long], kind="stable")[:top]])


def _gap_rows(
    scope: Scope, part: DeviceGaps, which: Ints, largest: LargestPieces, tree: StackTree
) -> list[tuple[object, ...]]:
    ops, device = part.ops, part.device
    before = _names_before(scope, part, which)
    after = np.append(ops.name, -1)[part.next_op[which]]
    names = scope.texts(np.unique(np.concatenate((before, after))).tolist())
    rows: list[tuple[object, ...]] = []
    columns = (which.tolist(), before.tolist(), after.tolist(), part.step[which].tolist(), part.threads_of(which))
    for k, previous, following, step, thread in zip(*columns, strict=True):
        start, end = int(part.start[k]), int(part.end[k])
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
                names.get(previous),
                names.get(following),
                thread,
                Cause(int(largest.cause[k])).text,
                tree.frames(int(largest.node[k])),
            )
        )
    return rows


def _names_before(scope: Scope, part: DeviceGaps, which: Ints) -> Ints:
    """Names of the operations of the lane that end where gaps begin, -1 where there are none."""
    ops = part.ops
    able = np.flatnonzero(ops.lane == int(Lane.COMPUTE)) if not part.of_device else np.arange(len(ops))
    by_end = able[np.argsort(ops.end[able], kind="stable")]
    ends = np.append(ops.end[by_end], np.iinfo(np.int64).max)
    at = np.searchsorted(ends[:-1], part.start[which])
    ends_there = ends[at] == part.start[which]
    found = np.where(ends_there, np.append(ops.name[by_end], -1)[at], -1)
    # That of the first gap of selected steps has ended before these begin.
    for k in np.flatnonzero(~ends_there & (part.start[which] == ops.span[0])).tolist():
        lane = "" if part.of_device else f"AND lane = {int(Lane.COMPUTE)}"
        row = first_row(
            scope.connection.execute(
                f"""SELECT name FROM stored.gpu_ops WHERE capture = ? AND device = ? AND end_ns = ? {lane}
                ORDER BY op_id LIMIT 1""",
                [part.device.capture, part.device.device, int(part.start[which[k]])],
            )
        )
        found[k] = -1 if row is None or row[0] is None else row[0]
    return found


def gap_pieces(scope: Scope, tree: StackTree) -> Frame:
    """Every piece of every gap of the selected devices, as a table."""
    columns: dict[str, list[object]] = {c.name: [] for c in GAP_PIECES.columns}
    for part in devices_with_gaps(scope, tree):
        for pieces in part.pieces():
            count = len(pieces)
            columns["capture"] += [part.device.capture] * count
            columns["rank"] += [part.device.rank] * count
            columns["device"] += [part.device.device] * count
            columns["gap"] += pieces.gap.tolist()
            columns["cause"] += [Cause(c).text for c in pieces.cause.tolist()]
            columns["reason"] += [Reason(r).text for r in pieces.reason.tolist()]
            columns["start_ns"] += pieces.start.tolist()
            columns["end_ns"] += pieces.end.tolist()
            columns["node_id"] += [None if n < 0 else n for n in pieces.node.tolist()]
            columns["refill"] += pieces.refill.tolist()
            columns["sampled"] += pieces.sampled.tolist()
    return Frame(GAP_PIECES, columns)
