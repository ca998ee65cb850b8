"""How much of each operation is waiting for another rank, and how much is transfer.

The definitions are those of Scalasca's wait states. In a collective in which all wait for all nobody can finish before
the last has begun: a rank waits from its own start to the last one's, on aligned clocks. In a broadcast or scatter the
others wait for the root, in a reduce or gather the root waits for the last; of a send and its receive the earlier one
waits for the later. The wait is the first part of the operation, the rest is transfer.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.passes.communication.clocks import Clock
from traceanalyzer.passes.communication.kinds import ALL_WAIT, POINT_TO_POINT, ROOT_WAITS, WAIT_FOR_ROOT
from traceanalyzer.passes.communication.matching import NONE, Matches
from traceanalyzer.passes.communication.message_clocks import drifted_ns
from traceanalyzer.passes.operations import NULL

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Waits:
    """Of each operation: its start on the common clock, its wait, whether that is told, and who came last.

    `wait` is the estimate, whatever its error: 0 where nothing is known. `resolved` says that it is no less than the
    residual of the clocks, or that the operation is the last arriver of a collective in which somebody waits; only then
    is it a wait that may be shown. `last` is the rank of the last arriver, -1 where the collective is not matched.
    """

    aligned: Ints
    wait: Ints
    resolved: NDArray[np.bool_]
    last: Ints


def find_waits(matches: Matches, clocks: Mapping[int, Clock], *, exact: bool = False) -> Waits:
    """Waits of all operations. With `exact` the clocks are taken as they are, without a residual."""
    of = matches.communication
    aligned = of.start.copy()
    error = np.zeros(len(of), np.int64)
    message_error, island = np.zeros(len(of), np.int64), np.zeros(len(of), np.int64)
    component = np.full(len(of), -1, np.int64)
    for rank, clock in clocks.items():
        mine = of.rank == rank
        aligned[mine] = clock.aligned(of.start[mine])
        error[mine] = clock.residual_p95_ns or 0
        island[mine] = clock.island
        if clock.message_error_ns is not None:
            away = drifted_ns(of.start[mine] - clock.message_middle_ns)
            message_error[mine] = clock.message_error_ns + (clock.residual_p95_ns or 0) + away
        component[mine] = -1 if clock.component is None else clock.component
    wait, last = np.zeros(len(of), np.int64), np.full(len(of), NONE, np.int64)
    resolved = np.zeros(len(of), np.bool_)
    rows, number = matches.members()
    if not len(rows):
        return Waits(aligned, wait, resolved, last)
    first = np.flatnonzero(np.append(True, number[1:] != number[:-1]))
    size = np.diff(np.append(first, len(rows)))
    until, known = _waits_until(of.kind[rows], of.rank[rows], _roots(matches, rows), aligned[rows], first, size)
    found = np.clip(until - aligned[rows], 0, of.duration[rows])
    latest = np.maximum.reduceat(aligned[rows], first)
    # Of several that came last together the first rank is named.
    is_last = aligned[rows] == np.repeat(latest, size)
    ranks = np.where(is_last, of.rank[rows], np.iinfo(np.int64).max)
    limit = np.repeat(np.maximum.reduceat(error[rows], first), size)
    # Between islands it is known how far two clocks are apart that exchange messages, not how far any two are.
    apart = np.minimum.reduceat(island[rows], first) != np.maximum.reduceat(island[rows], first)
    message = np.isin(of.kind[rows[first]], [int(one) for one in POINT_TO_POINT])
    limit = np.maximum(limit, np.repeat(np.where(apart, np.maximum.reduceat(message_error[rows], first), 0), size))
    together = np.minimum.reduceat(component[rows], first) == np.maximum.reduceat(component[rows], first)
    together &= exact | ((np.minimum.reduceat(component[rows], first) >= 0) & (message | ~apart))
    last[rows] = np.where(np.repeat(together, size), np.repeat(np.minimum.reduceat(ranks, first), size), NONE)
    clear = known & np.repeat(together, size) & (exact | (found >= limit) & (found > 0))
    somebody = np.repeat(np.maximum.reduceat(clear.astype(np.int8), first) > 0, size)
    resolved[rows] = clear | (known & somebody & (found == 0))
    wait[rows] = np.where(known & np.repeat(together, size), found, 0)
    return Waits(aligned, wait, resolved, last)


def _roots(matches: Matches, rows: NDArray[np.intp]) -> Ints:
    """The rank that is the root of each operation's collective, `NULL` where it is not known."""
    of = matches.communication
    out = np.full(len(rows), NULL, np.int64)
    able = np.flatnonzero(of.root[rows] != NULL)
    pairs = np.stack((of.group[rows[able]], of.root[rows[able]]), 1)
    distinct, inverse = np.unique(pairs, axis=0, return_inverse=True) if len(able) else (pairs, np.zeros(0, np.intp))
    ranks = []
    for group, root in distinct.tolist():
        members = of.groups[group].ranks
        if members is None:
            members = tuple(np.unique(of.rank[(of.group == group) & (of.rank >= 0)]).tolist())
        ranks.append(members[root] if 0 <= root < len(members) else NULL)
    out[able] = np.array(ranks, np.int64)[inverse.reshape(-1)] if ranks else out[able]
    return out


def _waits_until(
    kind: NDArray[np.int8],
    rank: Ints,
    root: Ints,
    at: Ints,
    first: NDArray[np.intp],
    size: Ints,
) -> tuple[Ints, NDArray[np.bool_]]:
    """Until when each operation of a collective waits, and whether its kind and root tell."""
    latest = np.repeat(np.maximum.reduceat(at, first), size)
    is_root = rank == root
    floor = np.iinfo(np.int64).min
    root_at = np.repeat(np.maximum.reduceat(np.where(is_root, at, floor), first), size)
    until = at.copy()
    all_wait = np.isin(kind, [int(k) for k in (*ALL_WAIT, *POINT_TO_POINT)])
    until[all_wait] = latest[all_wait]
    for_root = np.isin(kind, [int(k) for k in WAIT_FOR_ROOT])
    root_waits = np.isin(kind, [int(k) for k in ROOT_WAITS])
    known = all_wait | ((for_root | root_waits) & (root_at != floor))
    until = np.where(for_root & (root_at != floor), root_at, until)
    until = np.where(root_waits & is_root, latest, until)
    return until, known
