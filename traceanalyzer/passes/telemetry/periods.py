"""Whether a sampled series swings with a period: autocorrelation on a regular grid, held against noise."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEAST_SAMPLES = 12
LEAST_PERIODS = 3.0
"""A series has to hold this many periods: two pulses can be anything."""
LEAST_CORRELATION = 0.25
RED_NOISE = 1.3
"""A series of m periods has to correlate with itself, a period later, by this over the root of m or more.

Noise that wanders slowly (first order autoregressive, up to a random walk) stays below in all but about one of a
thousand series: tests count that."""
WHITE_NOISE = 4.5
"""The same for noise without memory: this over the root of the samples that overlap."""
FIRST_OF_EQUALS = 0.85
"""The shortest lag that correlates by about this share of the largest correlation is the period, not a multiple."""
LEAST_OF_TIP = 0.35
"""Where its tip lies between two samples, the higher of these correlates at least by this share of the largest one."""
FEW_SAMPLES_A_PERIOD = 4.0
"""With fewer samples a period than this, a faster swing may look like this one."""
MOST_LAGS = 1 << 16
MOST_BLOCKS = 32
MOST_SORTED = 1 << 18
"""Of longer series levels are those of this many values, evenly spread."""
_LONGEST_HOLE = 10
_MOST_EMPTY = 4
_LARGEST = 1e100


@dataclass(frozen=True, slots=True)
class Period:
    """A period in the unit of the instants, the correlation a period later, and how many periods the series holds.

    `duty` is the share of time near the `high` level, over whole periods; `step` is the distance of the samples.
    """

    period: float
    correlation: float
    count: float
    duty: float
    low: float
    high: float
    step: float

    @property
    def coarse(self) -> bool:
        """Whether so few samples lie in a period that it may be the alias of a faster swing."""
        return self.period < FEW_SAMPLES_A_PERIOD * self.step


def find_period(t: Ints, value: Floats) -> Period | None:
    """The period with which a series swings; None where it does not, or where it cannot be told from noise.

    `t` are sorted instants in any unit, `value` what was sampled there, nan where nothing was.
    """
    known = ~np.isnan(value)
    if not known.all():
        t, value = t[known], value[known]
    if len(t) < LEAST_SAMPLES or t[-1] <= t[0] or float(np.abs(value).max()) > _LARGEST:
        return None
    if value.max() <= value.min():
        return None
    distance = np.diff(t)
    step = float(np.median(distance[distance > 0]))
    del distance
    grid = _grid(t, value, step)
    if len(grid) < LEAST_SAMPLES:
        return None
    for factor in _factors(len(grid)):
        coarse = grid if factor == 1 else _means(grid, factor)
        lag, correlation = _best_lag(coarse)
        if lag:
            return _described(grid, lag * factor, correlation, step)
    return None


def _factors(count: int) -> list[int]:
    """By what samples are averaged: short periods are sought in the samples as they are, long ones in their means."""
    factors = [1]
    while count // factors[-1] > MOST_LAGS:
        factors.append(factors[-1] * (MOST_LAGS // 64))
    return factors


def _means(grid: Floats, factor: int) -> Floats:
    whole = len(grid) // factor * factor
    parts = grid[:whole].reshape(-1, factor)
    weight = (~np.isnan(parts)).sum(axis=1)
    total = np.nansum(parts, axis=1)
    return np.where(weight > 0, total / np.maximum(weight, 1), np.nan)


def _grid(t: Ints, value: Floats, step: float) -> Floats:
    """The series on a regular grid: means of the samples of each cell, nan for cells without one.

    Of a series with long holes it is the longest part without one.
    """
    if (t[-1] - t[0]) / step > _MOST_EMPTY * len(t):
        holes = np.flatnonzero(np.diff(t) > _LONGEST_HOLE * step)
        edges = np.concatenate([[0], holes + 1, [len(t)]])
        longest = int(np.argmax(np.diff(edges)))
        t, value = t[edges[longest] : edges[longest + 1]], value[edges[longest] : edges[longest + 1]]
    cell = np.rint((t - t[0]) / step).astype(np.int64)
    if len(cell) == cell[-1] + 1 and (np.diff(cell) == 1).all():
        return value
    count = np.bincount(cell)
    grid = np.bincount(cell, weights=value)
    grid[count == 0] = np.nan
    return np.divide(grid, count, out=grid, where=count > 0)


def _correlation(part: Floats) -> tuple[Floats, Floats] | None:
    """Products and norms of a part of a series with itself, lag by lag, without its linear trend."""
    known = ~np.isnan(part)
    if known.sum() < LEAST_SAMPLES:
        return None
    at = np.arange(len(part), dtype=np.float64)
    middle = at[known].mean()
    centred = np.where(known, part - part[known].mean(), 0.0)
    spread = float(((at[known] - middle) ** 2).sum())
    slope = float((centred * (at - middle)).sum()) / spread
    centred = np.where(known, centred - slope * (at - middle), 0.0)
    size = 1 << (2 * len(part) - 1).bit_length()
    spectrum = np.fft.rfft(centred, size)
    products = np.fft.irfft(spectrum * np.conj(spectrum), size)[: len(part)]
    power = np.concatenate([[0.0], np.cumsum(centred * centred)])
    heads, tails = power[::-1][: len(part)], power[-1] - power[: len(part)]
    return products, np.sqrt(np.maximum(heads * tails, 0.0))


def _best_lag(grid: Floats) -> tuple[float, float]:
    """The lag of the period and the correlation there; (0, 0) where there is none."""
    length = min(len(grid), MOST_LAGS)
    starts = np.unique(np.linspace(0, len(grid) - length, min(MOST_BLOCKS, -(-len(grid) // length))).astype(np.int64))
    products, norms, used = np.zeros(length), np.zeros(length), 0
    for start in starts.tolist():
        found = _correlation(grid[start : start + length])
        if found is not None:
            products += found[0]
            norms += found[1]
            used += 1
    floor = 1e-9 * norms[0] if used else 0.0
    if floor <= 0:
        return 0.0, 0.0
    r = np.where(norms > floor, products / np.maximum(norms, floor), 0.0)
    last = int(length / LEAST_PERIODS)
    below = np.flatnonzero(r[1 : last + 1] < 0)
    if not len(below) or below[0] + 2 >= last:
        return 0.0, 0.0
    first = int(below[0]) + 1
    if r[first : last + 1].max() < LEAST_CORRELATION:
        return 0.0, 0.0
    lag, highest = _first_peak(r, first, last), first + int(np.argmax(r[first : last + 1]))
    # Where the period falls between two samples, a multiple that falls on one may tell it from noise when it cannot.
    for seen in (lag, highest):
        white = WHITE_NOISE / np.sqrt(used * length - seen)
        least = max(LEAST_CORRELATION, RED_NOISE / np.sqrt(len(grid) / seen), white)
        if r[seen] >= least:
            exact, again = _refined(r, lag)
            return (exact, float(r[lag])) if again >= least / 2 else (0.0, 0.0)
    return 0.0, 0.0


def _first_peak(r: Floats, first: int, last: int) -> int:
    """The shortest lag from `first` to `last` that is a peak and nearly as high as the highest."""
    before, inner, after = r[first - 1 : last], r[first : last + 1], r[first + 1 : last + 2]
    peak = (inner >= before) & ((inner >= after) | (np.arange(first, last + 1) == last))
    peaks = np.flatnonzero(peak & (inner >= max(LEAST_CORRELATION, LEAST_OF_TIP * inner.max())))
    # Pulses correlate in triangles: of a period between two samples the tip is as far above the higher one as follows
    # from the slopes. Of a period of few samples no more than a part of the tip is left.
    tip = np.minimum(inner + np.abs(after - before) / 2, 1.0)[peaks]
    share = FIRST_OF_EQUALS * (1 - 1 / (first + peaks))
    return first + int(peaks[np.argmax(tip >= share * inner.max())])


def _refined(r: Floats, lag: int) -> tuple[float, float]:
    """The period from the farthest of its multiples that still correlates, and how well its double does."""
    exact, again = _top(r, lag), 0.0
    farthest = 2 * len(r) // 3
    for multiple in range(2, farthest // lag + 1):
        about = round(exact * multiple)
        reach = max(1, lag // 8)
        low, high = about - reach, min(about + reach + 1, farthest)
        if high - low < 1:
            break
        near = low + int(np.argmax(r[low:high]))
        if multiple == 2:
            again = float(r[near])
        if r[near] < r[lag] / 2:
            break
        exact = _top(r, near) / multiple
        if multiple >= 64:
            break
    return exact, again


def _top(r: Floats, lag: int) -> float:
    """Where the parabola through a peak and its neighbours is highest."""
    if not 0 < lag < len(r) - 1:
        return float(lag)
    before, here, after = (float(x) for x in r[lag - 1 : lag + 2])
    bend = before - 2 * here + after
    return lag + (0.0 if bend >= 0 else max(-0.5, min(0.5, 0.5 * (before - after) / bend)))


def levels(value: Floats) -> tuple[float, float, float]:
    """Low level, high level and what parts them: the split into two groups with the least spread inside (Otsu).

    The levels are the medians of the groups. Of values that are all the same, all three are that value.
    """
    ordered = np.sort(value[:: -(-len(value) // MOST_SORTED)])
    count = len(ordered)
    if ordered[0] == ordered[-1]:
        return (float(ordered[0]),) * 3
    total = np.cumsum(ordered)
    below = np.arange(1, count)
    means = total[:-1] / below, (total[-1] - total[:-1]) / (count - below)
    between = below * (count - below) * (means[1] - means[0]) ** 2
    between[ordered[1:] == ordered[:-1]] = -1.0
    split = int(np.argmax(between)) + 1
    low, high = float(np.median(ordered[:split])), float(np.median(ordered[split:]))
    return low, high, (low + high) / 2


def _described(grid: Floats, lag: float, correlation: float, step: float) -> Period:
    low, high, middle = levels(grid[~np.isnan(grid)])
    # Counted from the first sample, not from rise to rise: one noisy sample makes a rise that is none.
    whole = grid[: round(int(len(grid) / lag) * lag)]
    whole = whole[~np.isnan(whole)]
    return Period(lag * step, correlation, len(grid) / lag, float((whole > middle).mean()), low, high, step)
