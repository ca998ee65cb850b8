"""Collectives: what ranks communicated, how much of it was waiting for whom, and how fast the transfer was."""

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.hardware import peaks_of
from traceanalyzer.numeric.grouping import groups
from traceanalyzer.numeric.intervals import measure_before, union
from traceanalyzer.passes.answer import Answer, Finding, Frame, TableSpec
from traceanalyzer.passes.columns import RUN
from traceanalyzer.passes.communication.clocks import Clock, PlacedBy
from traceanalyzer.passes.communication.kinds import POINT_TO_POINT, Kind, bus_factor
from traceanalyzer.passes.communication.matching import NONE
from traceanalyzer.passes.communication.operations import UNKNOWN, Communication
from traceanalyzer.passes.communication.ranks import RankCommunication, communication_of, each_run, in_run
from traceanalyzer.passes.gaps import no_timeline
from traceanalyzer.passes.operations import NULL, window_of
from traceanalyzer.passes.scope import Scope
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.schema.kinds import Lane
from traceanalyzer.units import Unit, format_value

Ints = NDArray[np.int64]
MOST_GPUS = 8
"""Where files do not tell their host, groups of more ranks than this are taken to be on several."""

COLLECTIVES = TableSpec(
    "collectives",
    "Operations that communicate, the longest wait first: a row for each rank of each collective.",
    (
        RUN,
        Column("group", Type.TEXT, "Process group or communicator."),
        Column("ordinal", Type.INT64, "Order on the group, the same on all ranks; null where it is not known."),
        Column("kind", Type.TEXT, "all_reduce, all_gather, reduce_scatter, all_to_all, barrier, broadcast, send ..."),
        Column("dtype", Type.TEXT, "Data type, as the source names it."),
        Column("elements", Type.INT64, "Elements of the whole array.", Unit.COUNT),
        Column("bytes", Type.INT64, "Size of the whole array, as nccl-tests counts it.", Unit.BYTES),
        Column("ranks", Type.TEXT, "Ranks that were recorded in it (a list)."),
        Column("rank", Type.INT64, "Rank of this row."),
        Column("capture", Type.INT32, "Capture: `captures.capture`."),
        Column("device", Type.INT32, "Device of the capture; null for calls on the host."),
        Column("op_id", Type.INT64, "Operation: `gpu_ops.op_id`."),
        Column("step", Type.INT64, "Step in which it was launched."),
        Column("start_ns", Type.INT64, "Start, on the capture's own clock.", Unit.NS),
        Column("duration_ns", Type.INT64, "Length.", Unit.NS),
        Column("wait_ns", Type.INT64, "Part in which it waits for another rank; null if unresolved.", Unit.NS),
        Column("transfer_ns", Type.INT64, "The rest; null if unresolved.", Unit.NS),
        Column(
            "resolved",
            Type.BOOL,
            "Whether the wait can be told: the collective is matched, and it is no less than what clocks may be off.",
        ),
        Column("last_rank", Type.INT64, "Rank that came last; null if not matched, or the clocks cannot be compared."),
        Column("exposed_ns", Type.INT64, "Part during which no compute runs on its device.", Unit.NS),
    ),
)
CLOCKS = TableSpec(
    "clocks",
    "Clock of each rank against that of the first one of its component.",
    (
        RUN,
        Column("rank", Type.INT64, "Rank."),
        Column("offset_ns", Type.INT64, "What its clock shows more, in the middle of its window.", Unit.NS),
        Column("drift_ppm", Type.FLOAT64, "How much faster it runs, in parts per million; 0 where it cannot be told."),
        Column("residual_p50_ns", Type.INT64, "By how much ends of collectives disagree: median.", Unit.NS),
        Column("residual_p95_ns", Type.INT64, "The same, 95th percentile: shorter waits are unresolved.", Unit.NS),
        Column("component", Type.INT64, "Ranks of one component are on one clock; null: nothing is known."),
        Column("n_collectives", Type.INT64, "Collectives that it was estimated from.", Unit.COUNT),
        Column("placed_by", Type.TEXT, f"What tells it: {', '.join(PlacedBy)}; null where nothing does."),
        Column(
            "message_error_ns",
            Type.INT64,
            "How far it may be off that of any rank it exchanges messages with; null where collectives alone place it.",
            Unit.NS,
        ),
    ),
    cut=False,
)
LINKS = TableSpec(
    "links",
    "Sends between pairs of ranks, from the shorter of send and receive (medians); slow ones first.",
    (
        RUN,
        Column("source_rank", Type.INT64, "Rank that sends."),
        Column("target_rank", Type.INT64, "Rank that receives."),
        Column("bytes", Type.INT64, "Size.", Unit.BYTES),
        Column("count", Type.INT64, "Sends.", Unit.COUNT),
        Column("bandwidth_gbs", Type.FLOAT64, "Size by transfer time, in 1e9 bytes per second.", Unit.GB_PER_S),
        Column("share", Type.FLOAT64, "The same, beside the median of all pairs with this size.", Unit.SHARE),
    ),
)
SLOW_LINK = 0.7
"""A pair of ranks is slow below this share of what pairs usually reach."""
BANDWIDTH = TableSpec(
    "bandwidth",
    "Bandwidth of collectives by group, kind and size, from the transfer of the last arriver (medians).",
    (
        RUN,
        Column("group", Type.TEXT, "Process group or communicator."),
        Column("kind", Type.TEXT, "Kind."),
        Column("bytes", Type.INT64, "Size of the whole array.", Unit.BYTES),
        Column("count", Type.INT64, "Collectives.", Unit.COUNT),
        Column("transfer_ns", Type.INT64, "Transfer time of the last arriver.", Unit.NS),
        Column("algbw_gbs", Type.FLOAT64, "Size by transfer time, in 1e9 bytes per second.", Unit.GB_PER_S),
        Column("busbw_gbs", Type.FLOAT64, "The same by nccl-tests' factor: what a link carries.", Unit.GB_PER_S),
        Column(
            "peak_gbs",
            Type.FLOAT64,
            "One direction of the GPU's links, from its datasheet; null across hosts, or where it is not known.",
            Unit.GB_PER_S,
        ),
        Column("peak_share", Type.FLOAT64, "Bus bandwidth as a share of that.", Unit.SHARE),
    ),
)
TABLES = (COLLECTIVES, CLOCKS, BANDWIDTH, LINKS)
"""Tables of every answer."""


def collectives(scope: Scope) -> Answer:
    """Tables `collectives`, `clocks`, `bandwidth`, `links`. Times in ns; starts are on each capture's own clock."""
    return each_run(scope, _of_run)


def _of_run(scope: Scope) -> Answer:
    found = communication_of(scope)
    of, waits = found.matches.communication, found.waits
    shown = _shown(scope, found)
    order = shown[np.lexsort((of.op_id[shown], of.capture[shown], -waits.wait[shown] * waits.resolved[shown]))]
    top = scope.selection.top
    order = order[:top] if top else order
    links = _links(found, shown)
    answer = Answer(
        "collectives",
        {
            "collectives": Frame.of_rows(COLLECTIVES, in_run(scope, _rows(scope, found, order))),
            "clocks": Frame.of_rows(CLOCKS, in_run(scope, [_clock_row(c) for _, c in sorted(found.clocks.items())])),
            "bandwidth": Frame.of_rows(BANDWIDTH, in_run(scope, _bandwidth(scope, found, shown))),
            "links": Frame.of_rows(LINKS, in_run(scope, links)),
        },
        warnings=[*scope.warnings, *found.notes] if len(of) else list(scope.warnings),
        default_table="collectives",
        notes=[scope.note()],
    )
    answer.findings += _findings(found, shown) + _slow_links(links)
    if not len(of):
        answer.warnings.append(no_timeline(scope) or "no operation communicates in what is selected")
    return answer


def _shown(scope: Scope, found: RankCommunication) -> NDArray[np.intp]:
    """Operations of the selected ranks, devices, steps and window."""
    of = found.matches.communication
    places = {(d.capture, d.device) for d in scope.devices}
    if scope.selection.device is None:
        places |= {(capture, UNKNOWN) for capture in scope.captures}
    found_at = groups(of.capture, of.device)
    pairs = zip(of.capture[found_at.row].tolist(), of.device[found_at.row].tolist(), strict=True)
    able = np.array([pair in places for pair in pairs], np.bool_)[found_at.of_row]
    if scope.selection.ranks is not None:
        able &= (of.device != UNKNOWN) | np.isin(of.rank, list(scope.selection.ranks))
    if scope.selection.steps is not None:
        low, high = scope.selection.steps
        able &= (of.step >= low) & (of.step <= high)
    if scope.selection.window_ns is not None:
        for capture in np.unique(of.capture).tolist():
            window = window_of(scope, capture)
            if window is not None:
                able &= (of.capture != capture) | ((of.end > window[0]) & (of.start < window[1]))
    return np.flatnonzero(able)


def _or_none(value: int) -> int | None:
    return None if value == NULL else value


def _rows(scope: Scope, found: RankCommunication, which: NDArray[np.intp]) -> list[tuple[object, ...]]:
    of, waits, matches = found.matches.communication, found.waits, found.matches
    members, number = matches.members()
    ranks: dict[int, list[int]] = {}
    for k, rank in zip(number.tolist(), of.rank[members].tolist(), strict=True):
        ranks.setdefault(k, []).append(rank)
    rows: list[tuple[object, ...]] = []
    exposed = _exposed(scope, of, which)
    for k, bare in zip(which.tolist(), exposed.tolist(), strict=True):
        resolved, collective = bool(waits.resolved[k]), int(matches.collective[k])
        rank, wait, duration = int(of.rank[k]), int(waits.wait[k]), int(of.end[k] - of.start[k])
        kind = Kind(int(of.kind[k]))
        rows.append(
            (
                of.groups[of.group[k]].label if of.group[k] != UNKNOWN else None,
                None if matches.ordinal[k] == NONE else int(matches.ordinal[k]),
                None if kind is Kind.UNKNOWN else kind.text,
                of.dtype[k],
                _or_none(int(of.elements[k])),
                _or_none(int(of.bytes[k])),
                sorted(ranks[collective]) if collective != NONE else [rank] if rank != UNKNOWN else [],
                None if rank == UNKNOWN else rank,
                int(of.capture[k]),
                None if of.device[k] == UNKNOWN else int(of.device[k]),
                None if of.op_id[k] == UNKNOWN else int(of.op_id[k]),
                _or_none(int(of.step[k])),
                int(of.start[k]),
                duration,
                wait if resolved else None,
                duration - wait if resolved else None,
                resolved,
                None if waits.last[k] == NONE else int(waits.last[k]),
                None if of.device[k] == UNKNOWN else bare,
            )
        )
    return rows


def _accuracy(found: RankCommunication) -> str:
    """How far clocks may be off, in words; nothing where that is not known."""
    clocks = found.clocks.values()
    ends = [c.residual_p95_ns for c in clocks if c.residual_p95_ns]
    messages = [c.message_error_ns for c in clocks if c.message_error_ns is not None]
    told = []
    if ends:
        told.append(f"clocks agree to within {format_value(max(ends), Unit.NS)} (95 % of ends)")
    if messages:
        limit = format_value(max(messages), Unit.NS)
        told.append(f"clocks of ranks that send to each other are off by {limit} at most, which their messages bound")
    return "; ".join(told)


def _clock_row(clock: Clock) -> tuple[object, ...]:
    return (
        clock.rank,
        clock.offset_ns,
        clock.drift_ppm,
        clock.residual_p50_ns,
        clock.residual_p95_ns,
        clock.component,
        clock.n_collectives,
        None if clock.component is None else clock.placed_by.value,
        clock.message_error_ns,
    )


def _exposed(scope: Scope, of: Communication, which: NDArray[np.intp]) -> Ints:
    """How long each operation runs while no compute does on its device."""
    out = np.zeros(len(which), np.int64)
    places = groups(of.capture[which], of.device[which])
    for place, row in enumerate(places.row.tolist()):
        mine = np.flatnonzero(places.of_row == place)
        got = scope.connection.execute(
            f"""SELECT start_ns, end_ns FROM stored.gpu_ops
            WHERE capture = ? AND device = ? AND lane = {int(Lane.COMPUTE)}""",
            [int(of.capture[which[row]]), int(of.device[which[row]])],
        ).fetchnumpy()
        compute = union(np.asarray(got["start_ns"], np.int64), np.asarray(got["end_ns"], np.int64))
        start, end = of.start[which[mine]], of.end[which[mine]]
        out[mine] = end - start - (measure_before(*compute, end) - measure_before(*compute, start))
    return out


def _peaks(scope: Scope, found: RankCommunication) -> dict[int, float | None]:
    """Of each group, one direction of the links of its GPUs; None where they are not of one host, or not known."""
    of = found.matches.communication
    rows = scope.connection.execute(
        """SELECT d.capture, d.device, n.text, c.host FROM stored.devices d
        JOIN stored.captures c ON c.capture = d.capture LEFT JOIN stored.names n ON n.name_id = d.name
        WHERE d.capture IN (SELECT unnest(?::INTEGER[]))""",
        [np.unique(of.capture).tolist()],
    ).fetchall()
    known = {(capture, device): (name, host) for capture, device, name, host in rows}
    out: dict[int, float | None] = {}
    for group, about in enumerate(of.groups):
        mine = np.flatnonzero(of.group == group)
        places = groups(of.capture[mine], of.device[mine]) if len(mine) else None
        kinds = set()
        for row in places.row.tolist() if places is not None else ():
            kinds.add(known.get((int(of.capture[mine[row]]), int(of.device[mine[row]])), (None, None)))
        names, hosts = {name for name, _ in kinds}, {host for _, host in kinds}
        apart = len(hosts) != 1 or (hosts == {None} and (about.size or 0) > MOST_GPUS)
        peaks = peaks_of(names.pop()) if len(names) == 1 and not apart else None
        out[group] = None if peaks is None else peaks.link_one_way_gbs
    return out


def _links(found: RankCommunication, shown: NDArray[np.intp]) -> list[tuple[object, ...]]:
    """Sends by pair of ranks and size."""
    of, matches = found.matches.communication, found.matches
    rows, number = matches.members()
    able = np.isin(rows, shown) & np.isin(of.kind[rows], [int(kind) for kind in POINT_TO_POINT])
    rows, number = rows[able], number[able]
    pairs: dict[tuple[int, int, int], list[int]] = {}
    for one, two in zip(rows[:-1].tolist(), rows[1:].tolist(), strict=True) if len(rows) else ():
        if matches.collective[one] != matches.collective[two]:
            continue
        send, receive = (one, two) if of.kind[one] == int(Kind.SEND) else (two, one)
        # Both end together, so the shorter one is the transfer, whatever the clocks.
        left, size = int(min(of.duration[send], of.duration[receive])), int(of.bytes[send])
        if left > 0 and size > 0:
            pairs.setdefault((int(of.rank[send]), int(of.rank[receive]), size), []).append(left)
    speed = {key: key[2] / float(np.median(times)) for key, times in pairs.items()}
    usual: dict[int, float] = {}
    for size in {key[2] for key in speed}:
        usual[size] = float(np.median([value for key, value in speed.items() if key[2] == size]))
    out: list[tuple[object, ...]] = [
        (*key, len(pairs[key]), value, value / usual[key[2]])
        for key, value in sorted(speed.items(), key=lambda item: (item[1] / usual[item[0][2]], item[0]))
    ]
    return out


def _slow_links(rows: list[tuple[object, ...]]) -> list[Finding]:
    """Pairs of ranks between which sends are slow, where there are others to compare them with."""
    slow = [row for row in rows if float(str(row[5])) < SLOW_LINK]
    if not slow:
        return []
    source, target, _, count, speed, share = slow[0]
    text = (
        f"sends from rank {source} to rank {target} reach {float(str(speed)):,.1f} GB/s,"
        f" {100 * float(str(share)):.0f} % of what pairs of ranks usually do ({count} sends)"
    )
    if len(slow) > 1:
        text += f"; {len(slow) - 1} more pairs are slow: --table links"
    return [Finding("slow_link", text, None, None)]


def _bandwidth(scope: Scope, found: RankCommunication, shown: NDArray[np.intp]) -> list[tuple[object, ...]]:
    """Of collectives that the whole group was recorded in, or of whose last arriver it is known that it came last."""
    of, waits, matches = found.matches.communication, found.waits, found.matches
    able = shown[(matches.collective[shown] != NONE) & (of.bytes[shown] != NULL) & (of.bytes[shown] > 0)]
    able = able[of.kind[able] != int(Kind.UNKNOWN)]
    able = able[matches.whole[matches.collective[able]] & (waits.last[able] == of.rank[able])]
    transfer: dict[tuple[int, int, int], list[int]] = {}
    for k in able.tolist():
        left = int(of.end[k] - of.start[k] - waits.wait[k])
        if left > 0:
            transfer.setdefault((int(of.group[k]), int(of.kind[k]), int(of.bytes[k])), []).append(left)
    rows: list[tuple[object, ...]] = []
    peaks = _peaks(scope, found)
    for (group, kind, size), times in sorted(transfer.items(), key=lambda item: (item[0][0], item[0][1], -item[0][2])):
        middle = float(np.median(times))
        ranks = of.groups[group].size or 2
        algorithm = size / middle
        bus = algorithm * bus_factor(Kind(kind), ranks)
        peak = peaks[group]
        share = None if peak is None else bus / peak
        rows.append(
            (of.groups[group].label, Kind(kind).text, size, len(times), round(middle), algorithm, bus, peak, share)
        )
    return rows


def _findings(found: RankCommunication, shown: NDArray[np.intp]) -> list[Finding]:
    of, waits = found.matches.communication, found.waits
    if not len(shown):
        return []
    total = int(of.duration[shown].sum())
    resolved = shown[waits.resolved[shown]]
    wait = int(waits.wait[resolved].sum())
    known = int(of.duration[resolved].sum())
    told = f"{_ms(total)} in {len(shown):,} operations that communicate"
    if not len(resolved):
        return [Finding("communication", f"{told}; which part of it is waiting cannot be told", None, total)]
    text = f"{told}: {_ms(wait)} ({100 * wait / total:.0f} %) is waiting for another rank, {_ms(known - wait)} transfer"
    alone = found.matches.collective[shown] == NONE
    if unmatched := int(of.duration[shown[alone]].sum()):
        text += f", {_ms(unmatched)} in operations that have no counterpart on other ranks"
    if apart := int(of.duration[shown[~alone & (waits.last[shown] == NONE)]].sum()):
        text += f", {_ms(apart)} in operations between ranks on no common clock, or none that is known well enough"
    out = [Finding("communication", text, None, wait)]
    if accuracy := _accuracy(found):
        short = shown[~waits.resolved[shown] & (waits.last[shown] != NONE)]
        text = accuracy
        if len(short):
            rest = _ms(int(of.duration[short].sum()))
            text += f"; {rest} are in operations that are not resolved: if they wait, then for less"
        out.append(Finding("clocks", text, None, None))
    late: dict[int, int] = {}
    others = resolved[waits.last[resolved] != of.rank[resolved]]
    ranks, sums = waits.last[others], waits.wait[others]
    for rank in np.unique(ranks).tolist():
        late[rank] = int(sums[ranks == rank].sum())
    if late and wait:
        rank = max(late, key=lambda r: (late[r], -r))
        share = 100 * late[rank] / wait
        part = "most" if share > 50 else "the largest part"
        text = f"{part} of the waiting is for rank {rank}: {_ms(late[rank])}, {share:.0f} % of all"
        out.append(Finding("last_arriver", text, rank, late[rank]))
    return out


def _ms(ns: int) -> str:
    return f"{ns / 1e6:,.1f} ms"
