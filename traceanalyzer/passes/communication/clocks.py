"""Clocks of ranks: how far each is ahead of the others, from the ends of collectives in which all wait for all.

All ranks leave such a collective together, up to jitter. The model of an end is: the instant at which the collective
ended, plus the offset of the rank's clock, plus its drift, plus jitter. Offsets follow group by group from medians, and
are refined until they agree over all groups. The jitter that is left is the residual: waits shorter than that cannot be
told.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.numeric.grouping import connected, groups
from traceanalyzer.passes.communication.kinds import ALL_WAIT
from traceanalyzer.passes.communication.matching import Matches

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_ROUNDS = 12
_DRIFT_ROUNDS = 20
_SETTLED_NS = 5.0
"""Changes below this are no changes: jitter is far larger."""
_MOST_DRIFT_PPM = 1000.0
_DRIFT_ERRORS = 6.0
"""A drift counts if it moves the clock by this many standard errors over the window."""
LEAST_DRIFT_NS = 2_000
"""... and by this much."""
_LEAST_FOR_DRIFT = 12
LEAST_COLLECTIVES = 3
"""A group with fewer collectives tells no clock."""


class PlacedBy(StrEnum):
    """How a clock was put on that of the first rank. What its own collectives alone place is not on it."""

    COLLECTIVES = "ends of collectives"
    MESSAGES = "bounds by messages"
    OWN_COLLECTIVES = "ends of its own collectives only"
    TIME_OF_DAY = "time of day"
    AS_RECORDED = "as recorded"


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock of a rank against that of the first rank of its component.

    `offset_ns` is what it shows more, in the middle of the window at `middle_ns` of its own clock. Residuals, which are
    those within the component, are None where nothing was estimated. Ranks of different `component` (None: nothing is
    known) cannot be compared, but for how the time of day may have placed them. Ranks of one `island` are on one clock
    by their collectives; between islands only messages tell, and `message_error_ns` is how far the clock may be off
    that of a rank of another island with which it exchanges any, at `message_middle_ns` of its own clock.
    """

    rank: int
    offset_ns: int
    drift_ppm: float
    middle_ns: int
    residual_p50_ns: int | None
    residual_p95_ns: int | None
    component: int | None
    n_collectives: int
    placed_by: PlacedBy = PlacedBy.COLLECTIVES
    message_error_ns: int | None = None
    message_middle_ns: int = 0
    island: int = 0

    def aligned(self, instants: Ints) -> Ints:
        """Instants of its own clock on that of the reference."""
        moved = np.rint((instants - self.middle_ns) * (self.drift_ppm / 1e6)).astype(np.int64)
        aligned: Ints = instants - self.offset_ns - moved
        return aligned


def estimate(matches: Matches, ranks: list[int]) -> dict[int, Clock]:
    """Clocks of some ranks from the collectives that they share."""
    rows, number = _of_all_wait(matches)
    of = matches.communication
    place = {rank: k for k, rank in enumerate(ranks)}
    able = np.isin(of.rank[rows], ranks)
    rows, number = rows[able], number[able]
    who = np.array([place[rank] for rank in of.rank[rows].tolist()], np.int64)
    return _Estimate(ranks, who, number, of.group[rows], of.end[rows]).clocks()


def _of_all_wait(matches: Matches) -> tuple[NDArray[np.intp], Ints]:
    rows, number = matches.members()
    of = matches.communication
    waits = np.isin(of.kind[rows], [int(kind) for kind in ALL_WAIT])
    rows, number = rows[waits], number[waits]
    # One or two ends say nothing of how far they are off.
    first = np.unique(number, return_index=True)[1]
    group, count = np.unique(of.group[rows[first]], return_counts=True)
    enough = np.isin(of.group[rows], group[count >= LEAST_COLLECTIVES])
    return rows[enough], number[enough]


class _Estimate:
    """`who` ended collective `number`, which is of `group`, at `end` on its own clock."""

    def __init__(self, ranks: list[int], who: Ints, number: Ints, group: Ints, end: Ints) -> None:
        self._ranks, self._who, self._group = ranks, who, group
        self._number = np.unique(number, return_inverse=True)[1].reshape(-1) if len(number) else number
        self._component = self._components()
        # Everything is counted from each rank's own first end, so that sums of floats stay exact to well below a ns.
        self._base = np.zeros(len(ranks), np.int64)
        self._last = np.zeros(len(ranks), np.int64)
        for k in range(len(ranks)):
            own = end[who == k]
            if len(own):
                self._base[k], self._last[k] = own.min(), own.max()
        self._local = (end - self._base[who]).astype(np.float64)

    def _components(self) -> Ints:
        """Ranks that are connected by collectives, by the place of the first of them; -1 for ranks without any."""
        pairs = groups(self._group, self._who)
        sets: dict[int, list[int]] = {}
        for group, k in zip(self._group[pairs.row].tolist(), self._who[pairs.row].tolist(), strict=True):
            sets.setdefault(group, []).append(k)
        found = connected(len(self._ranks), sets.values())
        found[np.isin(np.arange(len(found)), self._who, invert=True)] = -1
        return found

    def clocks(self) -> dict[int, Clock]:
        """The clocks: offsets alone first, then with drifts; those that are no more than noise are taken back."""
        offset, none = self._first_offsets(), np.zeros(len(self._ranks))
        offset = self._refined(offset, none)
        drift, moved = none.copy(), offset.copy()
        for _ in range(_DRIFT_ROUNDS):
            change = self._slopes(self._residual(moved, drift))
            drift += change
            drift -= self._of_reference(drift)
            moved = self._refined(moved, drift)
            if np.abs(change).max(initial=0) * self._longest() < _SETTLED_NS:
                break
        drift = np.where(self._tells(drift, self._residual(moved, drift)), drift, 0)
        offset = self._refined(moved, drift) if drift.any() else offset
        return self._told(offset, drift, self._residual(offset, drift))

    def _refined(self, offset: Floats, drift: Floats) -> Floats:
        """Offsets that are moved to where each rank ends with the others, until they stay."""
        offset = offset.copy()
        for _ in range(_ROUNDS):
            step = self._medians(self._residual(offset, drift), self._who, len(self._ranks))
            offset += step
            if np.abs(step).max(initial=0) < _SETTLED_NS:
                break
        return offset

    def _longest(self) -> float:
        return float((self._last - self._base).max(initial=0))

    def _of_reference(self, drift: Floats) -> Floats:
        """The drift of the reference of each rank's component."""
        known = self._component >= 0
        out: Floats = np.where(known, drift[np.maximum(self._component, 0)], 0)
        return out

    def _first_offsets(self) -> Floats:
        """Offsets by walking over the groups: of each member against the first one of its group, the median."""
        offset = np.full(len(self._ranks), np.nan)
        for k in np.unique(self._component[self._component >= 0]).tolist():
            offset[k] = 0.0
        edges = self._edges()
        moved = True
        while moved:
            moved = False
            for a, b, apart in edges:
                if np.isnan(offset[b]) and not np.isnan(offset[a]):
                    offset[b], moved = offset[a] + apart, True
                elif np.isnan(offset[a]) and not np.isnan(offset[b]):
                    offset[a], moved = offset[b] - apart, True
        found: Floats = np.nan_to_num(offset)
        return found

    def _edges(self) -> list[tuple[int, int, float]]:
        """(hub, member, how much later ends are on the member's clock) of every group."""
        out = []
        for group in np.unique(self._group).tolist():
            mine = np.flatnonzero(self._group == group)
            members = np.unique(self._who[mine]).tolist()
            ends = {k: mine[self._who[mine] == k] for k in members}
            hub = members[0]
            for member in members[1:]:
                _, a, b = np.intersect1d(
                    self._number[ends[hub]], self._number[ends[member]], assume_unique=True, return_indices=True
                )
                if len(a):
                    apart = self._local[ends[member][b]] - self._local[ends[hub][a]]
                    out.append((hub, member, float(np.median(apart))))
        return out

    def _residual(self, offset: Floats, drift: Floats) -> Floats:
        """How much later than its collective each rank ended, on aligned clocks."""
        middle = (self._last - self._base) / 2
        at = self._local - offset[self._who] - drift[self._who] * (self._local - middle[self._who])
        count = int(self._number.max()) + 1 if len(self._number) else 0
        residual: Floats = at - self._medians(at, self._number, count)[self._number]
        return residual

    @staticmethod
    def _medians(values: Floats, key: Ints, count: int) -> Floats:
        """Median of the values of each key; 0 for keys without any."""
        out: Floats = np.zeros(count)
        if not len(values):
            return out
        order = np.lexsort((values, key))
        keys, first, size = np.unique(key[order], return_index=True, return_counts=True)
        ordered = values[order]
        out[keys] = (ordered[first + (size - 1) // 2] + ordered[first + size // 2]) / 2
        return out

    def _thirds(self, k: int) -> tuple[NDArray[np.intp], NDArray[np.intp]] | None:
        """The first and the last third of a rank's ends in time; None where there are too few."""
        own = np.flatnonzero(self._who == k)
        if len(own) < _LEAST_FOR_DRIFT:
            return None
        own = own[np.argsort(self._local[own], kind="stable")]
        return own[: len(own) // 3], own[-(len(own) // 3) :]

    def _slopes(self, residual: Floats) -> Floats:
        """How much later each rank ends as time goes on: from the first third of its ends to the last."""
        out = np.zeros(len(self._ranks))
        for k in range(len(self._ranks)):
            thirds = self._thirds(k)
            if thirds is None:
                continue
            early, late = thirds
            apart = float(np.median(residual[late]) - np.median(residual[early]))
            time = float(np.mean(self._local[late]) - np.mean(self._local[early]))
            if time > 0 and abs(apart / time) * 1e6 <= _MOST_DRIFT_PPM:
                out[k] = apart / time
        return out

    def _tells(self, drift: Floats, residual: Floats) -> NDArray[np.bool_]:
        """Which drifts are more than noise, and long enough to matter."""
        out = np.zeros(len(self._ranks), np.bool_)
        for k in range(len(self._ranks)):
            thirds = self._thirds(k)
            if thirds is None or not drift[k]:
                continue
            early, late = thirds
            own = residual[self._who == k]
            noise = 1.4826 * float(np.median(np.abs(own - np.median(own))))
            apart = abs(drift[k]) * float(np.mean(self._local[late]) - np.mean(self._local[early]))
            error = 1.25 * noise * np.sqrt(2 / len(early))
            window = float(self._last[k] - self._base[k])
            out[k] = apart > _DRIFT_ERRORS * error and abs(drift[k]) * window >= LEAST_DRIFT_NS
        return out

    def _told(self, offset: Floats, drift: Floats, residual: Floats) -> dict[int, Clock]:
        size = np.bincount(self._number)[self._number] if len(self._number) else np.zeros(0, np.int64)
        # A rank is part of the median that it is compared with: against the others alone it is off by more.
        off = np.abs(residual) * size / np.maximum(size - 1, 1)
        names = {int(c): k for k, c in enumerate(np.unique(self._component[self._component >= 0]).tolist())}
        out = {}
        for k, rank in enumerate(self._ranks):
            component = int(self._component[k])
            own = off[self._who == k]
            middle = int(self._base[k] + (self._last[k] - self._base[k]) // 2)
            if component < 0:
                out[rank] = Clock(rank, 0, 0.0, middle, None, None, None, 0)
                continue
            # Offsets were of ends counted from each rank's own first one.
            total = int(self._base[k] - self._base[component]) + round(offset[k] - offset[component])
            p50, p95 = (int(np.ceil(np.percentile(own, q))) for q in (50, 95)) if len(own) else (0, 0)
            out[rank] = Clock(rank, total, float(drift[k]) * 1e6, middle, p50, p95, names[component], len(own))
        return out
