"""What a step would take without the ranks that are late."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.passes.communication.lateness import Straggler
from traceanalyzer.passes.communication.rank_steps import RankSteps
from traceanalyzer.passes.communication.ranks import RankCommunication
from traceanalyzer.passes.communication.replay import (
    MOST_ERROR,
    MOST_OPERATIONS,
    RankLine,
    evened,
    line_of,
    replay,
    usable,
    without_excess,
)


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Length of a step without the excess of the stragglers, and if all ranks took the same; `error` of the replay.

    `error` is None where there was no replay; above 5 %, and there, the excess is just taken away, and `balanced_ns` is
    None.
    """

    step_ns: int | None = None
    balanced_ns: int | None = None
    error: float | None = None
    replayed: bool = False


def what_if_of(
    communication: RankCommunication, found: RankSteps, own: NDArray[np.float64], late: list[Straggler]
) -> WhatIf:
    """What a step takes without the stragglers, and if all ranks took the same: replayed where that can be trusted.

    `own` is the excess of every rank in every step.
    """
    if not found.stepped or not len(found.ranks):
        return WhatIf()
    step = found.longest_step_ns()
    saved = np.zeros((len(found.ranks), len(found.steps)))
    for each in late:
        saved[each.row, each.columns] = np.maximum(own[each.row, each.columns], 0)
    plain = round(step - float(saved.max(axis=0).mean()))
    lines = _lines(communication, found)
    usual = replay(communication, lines) if lines else None
    if usual is None:
        return WhatIf(plain)
    begun = min(line.offset for line in lines.values())
    ends = zip(found.ranks.tolist(), found.windows, strict=True)
    real = max(communication.clocks[rank].aligned(np.array([high]))[0] for rank, (_, high) in ends) - begun
    error = abs(usual / real - 1)
    if error > MOST_ERROR:
        return WhatIf(plain, None, error)
    saving = {int(found.ranks[each.row]): float(saved[each.row].sum()) for each in late}
    without = replay(communication, without_excess(lines, saving)) if late else usual
    even = evened(lines)
    balanced = replay(communication, even) if even is not None else None
    if without is None:
        return WhatIf(plain, None, error)
    return WhatIf(
        round(step * without / usual),
        None if balanced is None else round(step * balanced / usual),
        error,
        replayed=True,
    )


def _lines(communication: RankCommunication, found: RankSteps) -> dict[int, RankLine]:
    """The work of every rank; nothing where ranks are on no common clock, or there is too much to replay."""
    of = communication.matches.communication
    clocks = [communication.clocks.get(rank) for rank in found.ranks.tolist()]
    components = {None if clock is None else clock.component for clock in clocks}
    if len(of) > MOST_OPERATIONS or len(components) != 1 or None in components:
        return {}
    able = usable(communication)
    out = {}
    each = zip(found.ranks.tolist(), found.devices, found.windows, found.exposed, found.ready, strict=True)
    for rank, device, window, exposed, ready in each:
        which = np.flatnonzero((of.capture == device.capture) & (of.device == device.device))
        out[rank] = line_of(communication, communication.clocks[rank], which, exposed, window, able, ready)
    return out
