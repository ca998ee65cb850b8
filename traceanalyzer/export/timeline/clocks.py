"""The one clock of a timeline: what is added to the times of each rank, where that comes from, and where it begins."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.passes.communication.clocks import Clock, PlacedBy
from traceanalyzer.passes.communication.ranks import RankCommunication
from traceanalyzer.passes.scope import TIMELINES, Scope
from traceanalyzer.units import Unit, format_value

Ints = NDArray[np.int64]
_TOLD = (PlacedBy.COLLECTIVES, PlacedBy.MESSAGES)
"""Clocks of which it is known how far they may be off."""


@dataclass(frozen=True, slots=True)
class PlacedClock:
    """The clock of a rank in a capture on that of the timeline; `placed_by` says how that is known."""

    clock: Clock | None
    shift_ns: int
    placed_by: PlacedBy

    def on_reference(self, instants: Ints) -> Ints:
        """Instants of its own clock on the reference's. Their order stays."""
        shifted: Ints = instants + np.int64(self.shift_ns)
        return shifted if self.clock is None else self.clock.aligned(instants)


class TimelineClock:
    """Puts instants of any capture and rank on one clock, from `origin_ns` of the reference rank's own clock on."""

    def __init__(self, scope: Scope, communication: RankCommunication) -> None:
        self._align = scope.selection.align
        rows = scope.connection.execute(
            "SELECT capture, utc_offset_ns, rank FROM stored.captures WHERE run = ?", [scope.runs[0]]
        ).fetchall()
        self._utc: dict[int, int | None] = {capture: utc for capture, utc, _ in rows}
        self._clocks = communication.clocks
        self.notes = list(communication.notes)
        self.origin_ns = 0
        common = [clock for clock in self._clocks.values() if clock.component is not None]
        self.reference_rank = min(
            (clock.rank for clock in common if clock.component == min(c.component or 0 for c in common)), default=None
        )
        if self.reference_rank is not None:
            mine = communication.captures[self.reference_rank]
            self.reference_capture = min(mine, key=lambda capture: (self._utc[capture] is None, capture))
            return
        # Nothing connects ranks: only the time of day may, so that the first one that has it is the reference.
        timelines = set(scope.of_source(TIMELINES))
        _, _, rank, self.reference_capture = min(
            (utc is None, rank is None, rank, capture) for capture, utc, rank in rows if capture in timelines
        )
        self.reference_rank = rank

    @property
    def utc_offset_ns(self) -> int | None:
        """Added to the reference's own clock this gives Unix time, where its file tells."""
        return self._utc[self.reference_capture]

    def of(self, capture: int, rank: int | None) -> PlacedClock:
        """The clock of a rank, or of what has none, in a capture."""
        clock = self._clocks.get(rank) if rank is not None else None
        if clock is not None and clock.component is not None:
            alone = clock.rank == self.reference_rank and capture == self.reference_capture
            return PlacedClock(clock, 0, PlacedBy.AS_RECORDED if alone else clock.placed_by)
        own, reference = self._utc[capture], self.utc_offset_ns
        if self._align == "none" or capture == self.reference_capture or own is None or reference is None:
            return PlacedClock(None, 0, PlacedBy.AS_RECORDED)
        return PlacedClock(None, own - reference, PlacedBy.TIME_OF_DAY)

    def timeline(self, capture: int, rank: int | None, instants: Ints) -> Ints:
        """Instants of a capture's own clock on the timeline, in ns from its origin on."""
        placed: Ints = self.of(capture, rank).on_reference(np.asarray(instants, np.int64)) - np.int64(self.origin_ns)
        return placed

    def label(self, capture: int, rank: int | None) -> str:
        """How a rank was put on the clock, in words."""
        placed = self.of(capture, rank)
        if placed.clock is None or placed.placed_by not in _TOLD:
            return f"clock: {placed.placed_by}"
        if placed.placed_by is PlacedBy.MESSAGES:
            error = format_value(placed.clock.message_error_ns or 0, Unit.NS)
            return f"clock: {placed.placed_by}, off by {error} at most against ranks it exchanges messages with"
        residual = format_value(placed.clock.residual_p95_ns or 0, Unit.NS)
        return f"clock: {placed.placed_by}, residual p95 {residual}"

    def drifting(self, members: list[tuple[int, int | None]]) -> list[str]:
        """Says of which ranks times do not keep their lengths."""
        clocks = {rank: self.of(capture, rank).clock for capture, rank in members}
        return [
            f"rank {rank}: its clock drifts by {clock.drift_ppm:.0f} ppm against that of rank {self.reference_rank}, so"
            " that lengths in the timeline are other by as much; --align none keeps them"
            for rank, clock in clocks.items()
            if clock is not None and clock.drift_ppm
        ]

    def about(self, members: list[tuple[int, int | None]]) -> dict[str, object]:
        """What the file says of its clock."""
        ranks = []
        for capture, rank in members:
            placed = self.of(capture, rank)
            clock = placed.clock
            told = clock if clock is not None and clock.placed_by in _TOLD else None
            ranks.append(
                {
                    "capture": capture,
                    "rank": rank,
                    "placed_by": placed.placed_by,
                    "offset_ns": -placed.shift_ns if clock is None else clock.offset_ns,
                    "drift_ppm": 0.0 if clock is None else clock.drift_ppm,
                    "residual_p50_ns": None if told is None else told.residual_p50_ns,
                    "residual_p95_ns": None if told is None else told.residual_p95_ns,
                    "message_error_ns": None if told is None else told.message_error_ns,
                    "component": None if clock is None else clock.component,
                    "n_collectives": 0 if clock is None else clock.n_collectives,
                }
            )
        return {
            "align": self._align,
            "reference_rank": self.reference_rank,
            "reference_capture": self.reference_capture,
            "origin_ns": self.origin_ns,
            "unix_time_known": self.utc_offset_ns is not None,
            "ranks": ranks,
            "notes": self.notes,
        }
