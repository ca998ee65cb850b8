"""Clocks of ranks that no collective connects, from what they send each other: mostly the stages of a pipeline.

Nothing is received before its sending began. Messages both ways therefore bound from both sides how far one clock is
ahead of the other, as two packets do in NTP (RFC 5905, section 8). Over several ranks bounds add up; the tightest that
follow from all messages are shortest paths (a system of difference constraints). Within the bounds the time of day is
taken where the files tell it and it fits all of them, else the middle, which is right where messages take as long one
way as the other. How far that may be off is known, not estimated, as long as clocks drift apart by no more than
`MOST_DRIFT_PPM`: bounds are those in the middle of the window, and loosen by that much away from it.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.numeric.grouping import connected, groups
from traceanalyzer.passes.communication.clocks import Clock, PlacedBy
from traceanalyzer.passes.communication.kinds import Kind
from traceanalyzer.passes.communication.matching import Matches

Ints = NDArray[np.int64]
MOST_DRIFT_PPM = 1000.0
"""Clocks drift apart by no more: so much a drift of collectives may be at most."""
_UNBOUNDED = 1 << 61
"""No bound. Bounds are lengths within a recording, and far smaller."""
_UNKNOWN = -1
_MERGED = 1 << 40
"""Components of ranks that messages connect have numbers beyond those of collectives, until all are numbered anew."""


@dataclass(frozen=True, slots=True)
class PlacedByMessages:
    """Clocks, and ranks whose messages contradict each other: no offsets fit them, as where clocks drift apart."""

    clocks: dict[int, Clock]
    contradicting: list[int]


def place_by_messages(
    matches: Matches, clocks: dict[int, Clock], captures: dict[int, list[int]], utc_ns: dict[int, int]
) -> PlacedByMessages:
    """Puts ranks, and whole islands, that exchange messages both ways on the clock of the lowest rank among them.

    Ranks that collectives connect, or that one file holds, are one island: their clocks stay as these tell them.
    `captures` are the files of each rank, `utc_ns` what to add to its clock for the time of day, where that is known.
    `message_error_ns` of a rank is how far its clock may be off that of a rank of another island that it exchanges
    messages with, in the middle of the window.
    """
    islands = _islands(clocks, captures)
    count = max(islands.values(), default=-1) + 1
    if count < 2:
        return PlacedByMessages(clocks, [])
    bounds = _Bounds.of(matches, clocks, islands, count)
    found = _place(bounds, _utc_of_islands(clocks, islands, utc_ns))
    number: dict[int, int] = {}
    told = {}
    for rank, clock in clocks.items():
        k = islands[rank]
        placed = replace(clock, island=k)
        if found.error[k] != _UNKNOWN:
            # Its island may have no other rank, and no component: the reference is then placed by messages as well.
            is_reference = k == found.first[k] and clock.component is not None
            placed = replace(
                placed,
                offset_ns=clock.offset_ns + int(found.offset[k]),
                component=_MERGED + int(found.first[k]),
                message_error_ns=int(found.error[k]),
                message_middle_ns=bounds.middle + int(bounds.base[k]) + clock.offset_ns,
                placed_by=clock.placed_by if is_reference else PlacedBy.MESSAGES,
            )
        if placed.component is not None:
            placed = replace(placed, component=number.setdefault(placed.component, len(number)))
        told[rank] = placed
    return PlacedByMessages(told, [rank for rank in clocks if found.wrong[islands[rank]]])


@dataclass(frozen=True, slots=True)
class _Placed:
    """Of each island: what its clock shows more than that of the `first` of those it is placed with, how far that may
    be off between neighbours (`_UNKNOWN`: not placed), and whether its messages contradict each other.
    """

    offset: Ints
    error: Ints
    first: Ints
    wrong: NDArray[np.bool_]


def _place(bounds: "_Bounds", utc_ns: dict[int, int]) -> _Placed:
    count = len(bounds.base)
    out = _Placed(np.zeros(count, np.int64), np.full(count, _UNKNOWN), np.arange(count), np.zeros(count, np.bool_))
    for members in bounds.mutual():
        reference = members[0]
        mutual = np.isin(np.arange(count), members)
        within = bounds.within(mutual)
        after, before = within.paths_from(reference), within.paths_to(reference)
        if after is None or before is None:
            out.wrong[mutual] = True
            continue
        offset = np.where(mutual, (after - before) // 2, 0)
        if utc_ns.keys() >= set(members):
            shown = offset.copy()
            shown[members] = [utc_ns[reference] - utc_ns[k] for k in members]
            shown[members] -= bounds.base[members] - bounds.base[reference]
            offset = shown if within.allow(shown) else offset
        out.first[mutual] = reference
        out.error[mutual] = within.errors(offset, after, before)[mutual]
        out.offset[mutual] = (offset + bounds.base - bounds.base[reference])[mutual]
    return out


def _islands(clocks: dict[int, Clock], captures: dict[int, list[int]]) -> dict[int, int]:
    """The island of each rank, numbered by their lowest ranks."""
    ranks = sorted(clocks)
    sets: dict[tuple[str, int], list[int]] = {}
    for k, rank in enumerate(ranks):
        component = clocks[rank].component
        if component is not None:
            sets.setdefault(("component", component), []).append(k)
        for capture in captures.get(rank, ()):
            sets.setdefault(("capture", capture), []).append(k)
    found = connected(len(ranks), sets.values())
    number = {k: n for n, k in enumerate(sorted(set(found.tolist())))}
    return {rank: number[k] for rank, k in zip(ranks, found.tolist(), strict=True)}


def _utc_of_islands(clocks: dict[int, Clock], islands: dict[int, int], utc_ns: dict[int, int]) -> dict[int, int]:
    """What to add to the clock of each island for the time of day, where one of its files tells."""
    out: dict[int, int] = {}
    for rank, clock in sorted(clocks.items()):
        if rank in utc_ns:
            out.setdefault(islands[rank], utc_ns[rank] + clock.offset_ns)
    return out


@dataclass(frozen=True, slots=True)
class _Bounds:
    """`most`: at most how much more the clock of island `target` shows than that of `source`, by their messages.

    Clocks are counted from `base`, the first of each island's own times, so that sums stay small; bounds are those at
    `middle`.
    """

    source: Ints
    target: Ints
    most: Ints
    base: Ints
    middle: int

    @classmethod
    def of(cls, matches: Matches, clocks: dict[int, Clock], islands: dict[int, int], count: int) -> "_Bounds":
        """The bounds of all messages between two islands."""
        of = matches.communication
        rows, number = matches.members()
        able = np.isin(of.rank[rows], list(clocks))
        rows, number = rows[able], number[able]
        sends, receives = (np.flatnonzero(of.kind[rows] == int(kind)) for kind in (Kind.SEND, Kind.RECV))
        _, out, into = np.intersect1d(number[sends], number[receives], assume_unique=True, return_indices=True)
        begun, source = _on_islands(of.start[rows[sends[out]]], of.rank[rows[sends[out]]], clocks, islands)
        ended, target = _on_islands(of.end[rows[receives[into]]], of.rank[rows[receives[into]]], clocks, islands)
        apart = np.flatnonzero(source != target)
        begun, source, ended, target = begun[apart], source[apart], ended[apart], target[apart]
        never = np.iinfo(np.int64).max
        base = np.full(count, never, np.int64)
        np.minimum.at(base, source, begun)
        np.minimum.at(base, target, ended)
        base[base == never] = 0
        begun, ended = begun - base[source], ended - base[target]
        middle = int(begun.max(initial=0)) // 2
        pairs = groups(source, target)
        most = np.full(len(pairs), _UNBOUNDED, np.int64)
        np.minimum.at(most, pairs.of_row, ended - begun + drifted_ns(begun - middle))
        return cls(source[pairs.row], target[pairs.row], most, base, middle)

    def within(self, islands: NDArray[np.bool_]) -> "_Bounds":
        """Those between some islands alone."""
        mine = islands[self.source] & islands[self.target]
        return _Bounds(self.source[mine], self.target[mine], self.most[mine], self.base, self.middle)

    def allow(self, offset: Ints) -> bool:
        """Whether some offsets fit all bounds."""
        return bool((offset[self.target] - offset[self.source] <= self.most).all())

    def mutual(self) -> list[list[int]]:
        """Islands that messages lead to from each other: only those are bounded from both sides.

        Strongly connected components of more than one, by two searches (Kosaraju and Sharir).
        """
        onward: dict[int, list[int]] = {}
        backward: dict[int, list[int]] = {}
        for a, b in zip(self.source.tolist(), self.target.tolist(), strict=True):
            onward.setdefault(a, []).append(b)
            backward.setdefault(b, []).append(a)
        seen: set[int] = set()
        ended = [k for start in sorted({*onward, *backward}) for k in _searched(start, onward, seen)]
        seen = set()
        found = [sorted(_searched(start, backward, seen)) for start in reversed(ended)]
        return sorted(members for members in found if len(members) > 1)

    def paths_from(self, island: int) -> Ints | None:
        """At most how much more each clock shows than that of one island; None if the bounds contradict each other."""
        return self._paths(island, self.source, self.target)

    def paths_to(self, island: int) -> Ints | None:
        """At most how much less; None if the bounds contradict each other."""
        return self._paths(island, self.target, self.source)

    def _paths(self, island: int, source: Ints, target: Ints) -> Ints | None:
        """Shortest paths (Bellman and Ford)."""
        found = np.full(len(self.base), _UNBOUNDED, np.int64)
        found[island] = 0
        for _ in range(len(self.base) + 1):
            nearer = found.copy()
            able = found[source] < _UNBOUNDED
            np.minimum.at(nearer, target[able], (found[source] + self.most)[able])
            if (nearer == found).all():
                return found
            found = nearer
        return None

    def errors(self, offset: Ints, after: Ints, before: Ints) -> Ints:
        """How far each clock may be off that of any island it exchanges messages with, placed at some offsets."""
        low, high = np.minimum(self.source, self.target), np.maximum(self.source, self.target)
        pairs = groups(low, high)
        upward = self.source == low
        low, high = low[pairs.row], high[pairs.row]
        more, less = before[low] + after[high], before[high] + after[low]
        np.minimum.at(more, pairs.of_row[upward], self.most[upward])
        np.minimum.at(less, pairs.of_row[~upward], self.most[~upward])
        apart = offset[high] - offset[low]
        out = np.full(len(self.base), _UNKNOWN, np.int64)
        for ends in (low, high):
            np.maximum.at(out, ends, np.maximum(more - apart, apart + less))
        return out


def drifted_ns(apart_ns: Ints) -> Ints:
    """By how much clocks may have drifted apart in some time before or after."""
    drifted: Ints = np.ceil(np.abs(apart_ns) * (MOST_DRIFT_PPM / 1e6)).astype(np.int64)
    return drifted


def _searched(start: int, edges: dict[int, list[int]], seen: set[int]) -> list[int]:
    """What is reached from a start and was not before, in the order in which a depth-first search is done with it."""
    if start in seen:
        return []
    seen.add(start)
    done, path = [], [(start, iter(edges.get(start, ())))]
    while path:
        here, rest = path[-1]
        for other in rest:
            if other not in seen:
                seen.add(other)
                path.append((other, iter(edges.get(other, ()))))
                break
        else:
            done.append(here)
            path.pop()
    return done


def _on_islands(times: Ints, rank: Ints, clocks: dict[int, Clock], islands: dict[int, int]) -> tuple[Ints, Ints]:
    """Times of ranks on the clocks of their islands, and the islands."""
    out, island = times.copy(), np.zeros(len(rank), np.int64)
    ranks = groups(rank)
    for k, one in enumerate(rank[ranks.row].tolist()):
        mine = ranks.of_row == k
        out[mine], island[mine] = clocks[one].aligned(times[mine]), islands[one]
    return out, island
