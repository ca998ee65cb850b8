"""Which ranks are late: that take longer by themselves than the others do, in every step or in some.

The *excess* of a rank in a step is its own time, which is the step without communication that nothing hides, less the
median of the others' own times. It does not depend on any clock. Ranks that no collective connects (mostly stages of a
pipeline) do different work, and are not compared.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.passes.communication.rank_steps import RankSteps

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
LEAST_SHARE = 0.01
"""An excess below this share of the step is none."""
NOISE_FACTOR = 4 * 1.4826
"""A systematic excess exceeds its median absolute deviation by this factor (that of 4 standard deviations)."""
MOST_STEPS = 0.8
"""A systematic excess is there, by half of its median at least, in this share of the steps."""
LATE_STEP_SHARE = 0.05
"""A rank is late in a single step by at least this share of a step."""
LATE_STEP_NOISE = 6 * 1.4826
"""... by this many times the noise of the others (6 standard deviations) ..."""
LATE_BESIDE_LATEST = 0.25
"""... and by this share of what it is late in the step in which it is latest."""
LEAST_FOR_PERIOD = 3
"""Late steps that make a period."""
LEAST_STEPS = 2
"""Of fewer steps nothing is said."""


class Lateness(StrEnum):
    """How often a rank is late."""

    SYSTEMATIC = "systematic"
    PERIODIC = "periodic"
    OCCASIONAL = "occasional"


@dataclass(frozen=True, slots=True)
class Straggler:
    """A rank that the others wait for. `row` is its place among the ranks, `columns` the steps in which it is late.

    `excess_ns` is by how much in such a step: of a systematic one the median, else the mean. `period` counts steps.
    """

    row: int
    rank: int
    kind: Lateness
    excess_ns: int
    columns: NDArray[np.intp]
    period: int | None = None


def excess(found: RankSteps) -> Floats:
    """Excess of every rank in every step, in ns: a matrix of ranks by steps. 0 where a rank has no others."""
    own = found.own.astype(np.float64)
    out = np.zeros(own.shape)
    for row in range(len(found.ranks)):
        others = found.others(row)
        if len(others):
            out[row] = own[row] - np.median(own[others], axis=0)
    return out


def stragglers(found: RankSteps, late: Floats) -> list[Straggler]:
    """Ranks that are late, the costliest first; `late` is the excess of every rank in every step."""
    if not found.stepped or len(found.ranks) < 2 or len(found.steps) < LEAST_STEPS:
        return []
    step = float(np.median(found.part["duration"]))
    middle = np.median(late, axis=1)
    noise = NOISE_FACTOR * np.median(np.abs(late - middle[:, None]), axis=1)
    place = {rank: k for k, rank in enumerate(found.ranks.tolist())}
    rows = [[place[rank] for rank in group if rank in place] for group in found.groups]
    largest = _largest(middle, rows)
    out = []
    for k, rank in enumerate(found.ranks.tolist()):
        always = float((late[k] > middle[k] / 2).mean()) >= MOST_STEPS
        if middle[k] > LEAST_SHARE * step and middle[k] > noise[k] and always and k in largest:
            columns = np.arange(len(found.steps))
            out.append(Straggler(k, rank, Lateness.SYSTEMATIC, round(float(middle[k])), columns))
        elif (some := _in_some_steps(found, late, k, step, rows)) is not None:
            out.append(some)
    return sorted(out, key=lambda s: (-s.excess_ns * len(s.columns), s.rank))


def _largest(values: Floats, groups: list[list[int]]) -> set[int]:
    """The largest of each group of rows."""
    return {max(rows, key=lambda k: (values[k], -k)) for rows in groups if rows}


def _in_some_steps(found: RankSteps, late: Floats, k: int, step: float, groups: list[list[int]]) -> Straggler | None:
    """A rank that is late in some steps only.

    First by its excess as it is; else by how far that is beyond what each rank is always late, which one rank that is
    always a little late hides for all that are compared with it.
    """
    others = found.others(k)
    own = late[k]
    beyond = late - np.median(late, axis=1, keepdims=True)
    for values, usual in ((late, _noise(found, late, k)), (beyond, _spread(beyond, others))):
        limit = max(LATE_STEP_SHARE * step, LATE_STEP_NOISE * usual, LATE_BESIDE_LATEST * float(values[k].max()))
        able = np.flatnonzero(values[k] > limit).tolist()
        columns = np.array([c for c in able if k in _largest(values[:, c], groups)], np.intp)
        if len(columns) and own[columns].sum() > LEAST_SHARE * step * len(own):
            period = _period(found.steps[columns], found.steps)
            kind = Lateness.OCCASIONAL if period is None else Lateness.PERIODIC
            return Straggler(k, int(found.ranks[k]), kind, round(float(own[columns].mean())), columns, period)
    return None


def _noise(found: RankSteps, late: Floats, k: int) -> float:
    """What excess is where nobody is late: that of the other ranks; of a single other one, in the calmer half."""
    others = found.others(k)
    if len(others) > 1:
        return float(np.median(np.abs(late[others])))
    calm = np.sort(np.abs(late[k]))[: max(int(np.ceil(late.shape[1] / 2)), 1)]
    return float(np.median(calm))


def _spread(beyond: Floats, others: NDArray[np.intp]) -> float:
    """How far the other ranks are off what they always are; endless for a single one, which tells nothing."""
    return float(np.median(np.abs(beyond[others]))) if len(others) > 1 else float("inf")


def _period(late: Ints, steps: Ints) -> int | None:
    """Every how many steps a rank is late; None where that is not regular, or too seldom to tell."""
    if len(late) < LEAST_FOR_PERIOD:
        return None
    apart = np.unique(np.diff(late))
    if len(apart) != 1 or apart[0] < 2:
        return None
    period = int(apart[0])
    whole = late[0] - period < steps[0] and late[-1] + period > steps[-1]
    return period if whole else None
