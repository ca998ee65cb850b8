"""Which operations of several ranks are one collective.

The operations of a group are in the same order on every rank, so they are matched by their order among those that tell
their group: by the sequence number where the source has one, else by lining up the ranks' orders. A rank may have begun
to record earlier or later than others; its order is shifted until kinds and sizes agree wherever two ranks overlap, and
among shifts that agree the one counts with which ends differ by the most constant time, for all ranks leave a
collective together.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.numeric.grouping import groups as grouped
from traceanalyzer.passes.communication.kinds import OF_ONE_SIZE, POINT_TO_POINT, Kind
from traceanalyzer.passes.communication.operations import UNKNOWN, Communication, Group
from traceanalyzer.passes.operations import NULL

Ints = NDArray[np.int64]
NONE = -1
LEAST_OVERLAP = 0.5
"""Two ranks are lined up only where this share of the shorter one's operations agrees."""
LEAST_FOR_SPREAD = 3
"""From fewer pairs of ends it cannot be told whether they are a constant time apart."""
MOST_SHIFT = 256
"""Operations by which one rank may have begun earlier than another, beyond the difference of their numbers."""
BY_NAME = "all ranks, by name"


@dataclass(frozen=True, slots=True)
class Matches:
    """Which collective each operation is part of, -1 for none; collectives are numbered by group and order.

    `ordinal` is the order of the operation on its group (-1 where it is not known). `whole` tells of each collective
    whether every rank that its group is known to have took part. `reasons` says of groups why some of their operations
    are unmatched.
    """

    communication: Communication
    collective: Ints
    ordinal: Ints
    whole: NDArray[np.bool_]
    reasons: list[str]

    def members(self) -> tuple[NDArray[np.intp], Ints]:
        """Operations that are matched, in the order of their collectives, and the collective of each."""
        order = np.argsort(self.collective, kind="stable")
        order = order[self.collective[order] != NONE]
        return order, self.collective[order]


def match(communication: Communication) -> Matches:
    """Finds the collectives. Operations in flight when recording began, and those that tell no group, are unmatched."""
    communication = _with_kernel_names(communication)
    found = _Matcher(communication)
    for group in range(len(communication.groups)):
        found.match_group(group)
    return found.matches()


def _with_kernel_names(communication: Communication) -> Communication:
    """Where no operation tells its group, as if all were of one group of all ranks; those in flight are left out."""
    if (communication.group != UNKNOWN).any() or not len(communication) or len(np.unique(communication.rank)) < 2:
        return communication
    able = communication.launched & (communication.rank != UNKNOWN)
    if not able.any():
        return communication
    ranks = tuple(np.unique(communication.rank[able]).tolist())
    group = Group("", "", ranks, len(ranks), BY_NAME)
    place = np.where(able, len(communication.groups), UNKNOWN)
    return replace(communication, group=place, groups=[*communication.groups, group])


class _Matcher:
    def __init__(self, communication: Communication) -> None:
        self._all = communication
        self._collective = np.full(len(communication), NONE, np.int64)
        self._ordinal = np.full(len(communication), NONE, np.int64)
        self._whole: list[bool] = []
        self._reasons: list[str] = []
        self._key = _keys(communication)

    def matches(self) -> Matches:
        return Matches(self._all, self._collective, self._ordinal, np.array(self._whole, np.bool_), self._reasons)

    def match_group(self, number: int) -> None:
        """Matches the collectives of a group, and its sends with its receives."""
        of, group = self._all, self._all.groups[number]
        able = (of.group == number) & (of.rank != UNKNOWN)
        pairs = np.isin(of.kind, [int(kind) for kind in POINT_TO_POINT])
        self._match_pairs(group, np.flatnonzero(able & pairs))
        rows = np.flatnonzero(able & ~pairs)
        ranks = np.unique(of.rank[rows])
        if group.ranks is not None and (strange := sorted(set(ranks.tolist()) - set(group.ranks))):
            self._reasons.append(f"{group.label}: {_ranks(strange)} take part, but are not among its ranks")
        if not len(rows):
            return
        if len(ranks) < 2:
            if group.size != 1:
                self._reasons.append(f"{group.label}: only rank {ranks[0]} of its ranks was recorded")
            self._ordinal[rows] = np.arange(len(rows))
            return
        by_rank = {int(rank): rows[of.rank[rows] == rank] for rank in ranks}
        by_rank = {rank: mine[np.lexsort((of.op_id[mine], of.start[mine]))] for rank, mine in by_rank.items()}
        place = self._places(group, by_rank)
        self._join(group, by_rank, place)

    def _places(self, group: Group, by_rank: dict[int, NDArray[np.intp]]) -> dict[int, Ints]:
        """Order on the group of the operations of each rank; a rank that cannot be lined up has none."""
        sequences = {rank: self._all.sequence[mine] for rank, mine in by_rank.items()}
        if all((s != NULL).all() and len(np.unique(s)) == len(s) for s in sequences.values()):
            first = min(int(s.min()) for s in sequences.values())
            return {rank: s - first for rank, s in sequences.items()}
        reference = max(by_rank, key=lambda rank: (len(by_rank[rank]), -rank))
        places: dict[int, Ints] = {}
        for rank, mine in by_rank.items():
            shift = 0 if rank == reference else self._shift(mine, by_rank[reference])
            if shift is not None:
                places[rank] = np.arange(len(mine)) + shift
        if left := sorted(set(by_rank) - set(places)):
            self._reasons.append(
                f"{group.label}: operations of {_ranks(left)} do not line up with those of rank {reference}: kinds or"
                " sizes differ, so the windows hold different operations"
            )
        lowest = min(int(place[0]) for place in places.values())
        return {rank: place - lowest for rank, place in places.items()}

    def _shift(self, mine: NDArray[np.intp], others: NDArray[np.intp]) -> int | None:
        """By how many places the operations of a rank stand behind those of another; None: they do not line up."""
        own, reference = self._key[mine], self._key[others]
        steps, reference_steps = self._all.step[mine], self._all.step[others]
        ends, reference_ends = self._all.end[mine], self._all.end[others]
        best: tuple[int, float, int, int] | None = None
        surplus = len(reference) - len(own)
        for shift in sorted(range(-MOST_SHIFT, surplus + MOST_SHIFT + 1), key=abs):
            low, high = max(0, -shift), min(len(own), len(reference) - shift)
            shorter = min(len(own), len(reference))
            if high - low < max(LEAST_OVERLAP * shorter, min(LEAST_FOR_SPREAD, shorter), 1):
                continue
            there = slice(low + shift, high + shift)
            if (own[low:high] != reference[there]).any():
                continue
            # Operations of one collective were launched in one step, where both ranks say in which.
            known = (steps[low:high] != NULL) & (reference_steps[there] != NULL)
            apart_in_steps = int((known & (steps[low:high] != reference_steps[there])).sum())
            apart = ends[low:high] - reference_ends[there]
            spread = float(np.median(np.abs(apart - np.median(apart))))
            found = apart_in_steps, spread, low - high, shift
            if best is None or found[:3] < best[:3]:
                best = found
            if not shift and not surplus and not apart_in_steps and known.all():
                return 0
        return None if best is None else best[3]

    def _join(self, group: Group, by_rank: dict[int, NDArray[np.intp]], places: dict[int, Ints]) -> None:
        """Makes collectives of operations of one order, where kinds and sizes agree."""
        for rank, place in places.items():
            self._ordinal[by_rank[rank]] = place
        rows = np.concatenate([by_rank[rank] for rank in places])
        order = np.argsort(self._ordinal[rows], kind="stable")
        rows = rows[order]
        ordinal, first, count = np.unique(self._ordinal[rows], return_index=True, return_counts=True)
        key = self._key[rows]
        agree = np.minimum.reduceat(key, first) == np.maximum.reduceat(key, first)
        known = group.size or (len(group.ranks) if group.ranks else len(by_rank))
        matched = agree & (count > 1)
        number = np.where(matched, len(self._whole) + np.cumsum(matched) - 1, NONE)
        self._collective[rows] = np.repeat(number, count)
        self._whole += (count[matched] >= known).tolist()
        alone, odd = int((count == 1).sum()), int((~agree).sum())
        if alone:
            self._reasons.append(
                f"{group.label}: {alone:,} of {len(ordinal):,} operations are in the window of one rank only"
            )
        if odd:
            self._reasons.append(f"{group.label}: kind or size of {odd:,} operations of one order differ between ranks")
        if known > len(places):
            self._reasons.append(f"{group.label}: {len(places)} of its {known} ranks take part in what was recorded")

    def _in_common_steps(
        self, out: NDArray[np.intp], into: NDArray[np.intp]
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Of sends and their receives, in order, as many of each: those of steps that both ranks recorded, where they
        say in which they launched; none, where numbers differ or most would be of different steps.
        """
        nothing = out[:0], into[:0]
        steps = [self._all.step[rows] for rows in (out, into)]
        if not len(out) or not len(into) or any((step == NULL).any() for step in steps):
            return (out, into) if len(out) == len(into) else nothing
        low, high = max(step.min() for step in steps), min(step.max() for step in steps)
        out, into = (rows[(s >= low) & (s <= high)] for rows, s in zip((out, into), steps, strict=True))
        if len(out) != len(into):
            return nothing
        same = self._all.step[out] == self._all.step[into]
        return (out, into) if 2 * int(same.sum()) >= len(out) else nothing

    def _match_pairs(self, group: Group, rows: NDArray[np.intp]) -> None:
        """Sends of a rank to another one with that one's receives from it, in order."""
        of = self._all
        if not len(rows):
            return
        other = _other_rank(of, group, rows)
        sends = of.kind[rows] == int(Kind.SEND)
        source = np.where(sends, of.rank[rows], other)
        target = np.where(sends, other, of.rank[rows])
        known = (source != UNKNOWN) & (target != UNKNOWN)
        rows, sends, source, target = rows[known], sends[known], source[known], target[known]
        ways = grouped(source, target) if len(rows) else None
        unmatched = 0
        for way in range(len(ways) if ways is not None else 0):
            mine = ways.of_row == way if ways is not None else np.zeros(0, bool)
            out, into = (rows[mine & is_send] for is_send in (sends, ~sends))
            out, into = (one[np.lexsort((of.op_id[one], of.start[one]))] for one in (out, into))
            every = len(out) + len(into)
            out, into = self._in_common_steps(out, into)
            unmatched += every - len(out) - len(into)
            numbers = len(self._whole) + np.arange(len(out))
            for one in (out, into):
                self._collective[one] = numbers
                self._ordinal[one] = np.arange(len(one))
            self._whole += [True] * len(out)
        unmatched += int((~known).sum())
        if unmatched:
            self._reasons.append(
                f"{group.label}: {unmatched:,} sends and receives have no counterpart: the other rank is not known, or"
                " did not record as many of them in the steps that both recorded"
            )


def _keys(communication: Communication) -> Ints:
    """What has to be equal in one collective: its kind, and its size where that is the same on all ranks."""
    if not len(communication):
        return np.zeros(0, np.int64)
    sized = np.isin(communication.kind, [int(kind) for kind in OF_ONE_SIZE])
    elements = np.where(sized, communication.elements, NULL)
    size = np.where(sized & (elements == NULL), communication.bytes, NULL)
    dtypes = {text: k for k, text in enumerate(sorted({d or "" for d in communication.dtype}))}
    dtype = np.array([dtypes[d or ""] for d in communication.dtype], np.int64)
    found = grouped(communication.kind.astype(np.int64), elements, size, np.where(sized, dtype, 0))
    return found.of_row.astype(np.int64)


def _other_rank(of: Communication, group: Group, rows: NDArray[np.intp]) -> Ints:
    """The rank at the other end of sends and receives: sources give it as a rank of the job or of the group."""
    out = np.full(len(rows), UNKNOWN, np.int64)
    members = group.ranks or tuple(np.unique(of.rank[(of.group == of.group[rows[0]]) & (of.rank != UNKNOWN)]).tolist())
    for k, (rank, peer) in enumerate(zip(of.rank[rows].tolist(), of.peer[rows].tolist(), strict=True)):
        if len(members) == 2:
            out[k] = members[0] if rank == members[1] else members[1]
        elif peer != NULL:
            able = [
                r for r in (peer, members[peer] if 0 <= peer < len(members) else peer) if r in members and r != rank
            ]
            out[k] = able[0] if able else UNKNOWN
    return out


def _ranks(ranks: list[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else "ranks " + ", ".join(map(str, ranks))
