"""A second opinion on which rank is late: what the waits say, by aligned clocks and by durations alone."""

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.numeric.grouping import groups
from traceanalyzer.passes.answer import Finding
from traceanalyzer.passes.communication.kinds import ALL_WAIT
from traceanalyzer.passes.communication.lateness import Lateness, Straggler
from traceanalyzer.passes.communication.ranks import RankCommunication

Ints = NDArray[np.int64]


def _take_turns(late: list[Straggler]) -> bool:
    """Whether several ranks are late, none of them in every step: then no single one is waited for most."""
    return len(late) > 1 and all(each.kind is not Lateness.SYSTEMATIC for each in late)


def second_opinion(communication: RankCommunication, late: list[Straggler]) -> list[Finding]:
    """What waits say of the rank that is latest: by clocks, and by durations alone, for all ranks leave together."""
    of, waits = communication.matches.communication, communication.waits
    told = np.flatnonzero(waits.resolved & (waits.wait > 0))
    rows, number = communication.matches.members()
    all_wait = np.isin(of.kind[rows], [int(kind) for kind in ALL_WAIT])
    # Sends and receives do not end on both ranks together: in a pipeline durations say nothing.
    mostly = 2 * int(of.duration[rows[all_wait]].sum()) > int(of.duration[rows].sum())
    rows, number = rows[all_wait], number[all_wait]
    if not len(told) or not mostly or not late or _take_turns(late):
        return []
    first = np.flatnonzero(np.append(True, number[1:] != number[:-1]))
    shortest = np.repeat(np.minimum.reduceat(of.duration[rows], first), np.diff(np.append(first, len(rows))))
    by_clock = _sums(waits.last[told], waits.wait[told])
    longer = _sums(of.rank[rows], of.duration[rows] - shortest)
    waited_for = max(by_clock, key=lambda rank: (by_clock[rank], -rank))
    waits_least = min(longer, key=lambda rank: (longer[rank], rank))
    share = f"{100 * by_clock[waited_for] / sum(by_clock.values()):.0f} % of all waiting is"
    named = {each.rank for each in late}
    agree = waited_for in named and waits_least in named
    text = (
        f"{'the waits agree' if agree else 'the waits do not agree, so look at those ranks too'}: by aligned clocks"
        f" {share} for rank {waited_for}, and by durations alone, without any clock, rank {waits_least} waits least"
    )
    return [Finding("second_opinion", text, None, None)]


def _sums(key: Ints, values: Ints) -> dict[int, int]:
    found = groups(key)
    return dict(zip(key[found.row].tolist(), found.sums(values).tolist(), strict=True))
