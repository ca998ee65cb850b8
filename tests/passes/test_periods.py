"""Periods of sampled series: planted ones are found, noise and constants have none."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from traceanalyzer.passes.telemetry.periods import (
    FIRST_OF_EQUALS,
    LEAST_CORRELATION,
    LEAST_PERIODS,
    RED_NOISE,
    WHITE_NOISE,
    find_period,
    levels,
)

SECOND = 10**9


def in_pulse(count, period, duty, phase=0.3):
    """Of samples a second apart whether a signal is high that is so for a share of each period."""
    # A sample on an edge lies on the same side of it in each period, whatever the last digits of the division are.
    return np.round((np.arange(count) / period + phase) % 1, 9) % 1 < round(duty, 9)


def pulses(count, period, duty, *, low=0.0, high=100.0, noise=0.0, seed=0, phase=0.3):
    """Instants and values of the samples of such a signal."""
    value = np.where(in_pulse(count, period, duty, phase), high, low)
    return np.arange(count) * SECOND, value + np.random.default_rng(seed).normal(0, noise, count)


def likeness(value, lag):
    """How samples correlate with those so much later."""
    return np.corrcoef(value[:-lag], value[lag:])[0, 1]


@settings(max_examples=60, deadline=None)
@given(
    st.floats(5, 80),
    st.floats(0.2, 0.8),
    st.floats(3.5, 40),
    st.floats(0, 15),
    st.integers(0, 2**32 - 1),
    st.floats(0, 1),
)
@example(54.625, 0.21875, 3.5, 12.0, 1175994, 0.09375)
@example(12.4375, 0.203125, 6.0, 10.0, 2574, 0.0)  # between two samples, where twice the period is not
@example(12.4375, 0.203125, 6.0, 9.0, 0, 0.0)
@example(10.5, 0.2, 6.1, 12.0, 1371879391, 0.0)
@example(5.0, 0.7999999999999999, 4.0, 0.0, 0, 1.0)  # samples on the edges of the pulses
@example(9.0, 0.8, 5.056942281587013, 15.0, 3113199142, 0.0)  # by noise half the period is a peak with steep sides
@example(5.0, 0.2, 6.0, 12.0, 641409723, 0.3)  # the median of few noisy samples is far from their level
def test_a_planted_period_is_found_with_its_duty_and_levels(period, duty, periods, noise, seed, phase):
    count = int(period * periods) + 1
    if count < 20:
        return
    t, value = pulses(count, period, duty, noise=noise, seed=seed, phase=phase)
    found = find_period(t, value)
    lag = round(period)
    if found is None:
        # Only what noise may be as well is not told: samples a period apart that correlate by no more than its bars.
        # They are held here to a tenth, for the trend, which is taken away first, and the mean take their part.
        bar = max(LEAST_CORRELATION, RED_NOISE / np.sqrt(count / lag), WHITE_NOISE / np.sqrt(count - lag))
        assert likeness(value, lag) < 1.1 * bar
        assert period < 12 or periods < 8
        return
    times = found.period / SECOND / period
    if abs(times - 1) > max(0.02, 1 / period):
        # Few samples a period: a multiple that falls on whole samples may be all that is seen, where samples a period
        # apart correlate by less than the share of what those a multiple apart do. It allows for half a sample.
        assert period < 15 and round(times) > 1 and abs(times - round(times)) < 0.1
        share = FIRST_OF_EQUALS * (1 - 1 / lag)
        assert likeness(value, lag) < 1.05 * share * likeness(value, round(found.period / SECOND))
        return
    assert found.duty == pytest.approx(duty, abs=1.5 / period + 0.03)
    # Levels are medians: of few noisy samples they are not the planted ones, but in the middle half of those samples.
    planted = in_pulse(count, period, duty, phase)
    for level, samples in (found.low, value[~planted]), (found.high, value[planted]):
        below, above = np.quantile(samples, [0.25, 0.75])
        assert below <= level <= above


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-50, 50), min_size=2, max_size=30).filter(lambda several: min(several) < max(several)))
def test_levels_are_of_the_split_with_the_least_spread_inside(several):
    value = np.array(several, np.float64)
    ordered = np.sort(value)
    splits = [(ordered[:k], ordered[k:]) for k in range(1, len(ordered)) if ordered[k - 1] < ordered[k]]
    spreads = [float(low.var() * len(low) + high.var() * len(high)) for low, high in splits]
    best = [s for s, spread in zip(splits, spreads, strict=True) if spread <= min(spreads) * (1 + 1e-9) + 1e-6]
    low, high, middle = levels(value)
    assert (low, high) in [(float(np.median(a)), float(np.median(b))) for a, b in best]
    assert middle == (low + high) / 2


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 2000),
    st.floats(0.1, 1000),
    st.sampled_from(["normal", "uniform", "spikes"]),
)
def test_noise_has_no_period(seed, count, size, kind):
    rng = np.random.default_rng(seed)
    value = {
        "normal": lambda: rng.normal(50, size, count),
        "uniform": lambda: rng.uniform(0, size, count),
        "spikes": lambda: np.where(rng.random(count) < 0.1, 100.0, 0.0),
    }[kind]()
    assert find_period(np.arange(count) * SECOND, value) is None


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.9, 0.98, 1.0])
def test_noise_that_wanders_is_seldom_taken_for_a_period(memory):
    rng = np.random.default_rng(7)
    count, trials, hits = 300, 150, 0
    for _ in range(trials):
        value, last = np.empty(count), 0.0
        for k, step in enumerate(rng.normal(size=count)):
            value[k] = last = memory * last + step
        hits += find_period(np.arange(count) * SECOND, value) is not None
    assert hits <= 1


@settings(max_examples=50, deadline=None)
@given(st.floats(-1e6, 1e6), st.integers(0, 300), st.integers(0, 2**32 - 1))
def test_constants_and_trends_have_no_period(value, count, seed):
    t = np.arange(count) * SECOND
    assert find_period(t, np.full(count, value)) is None
    assert find_period(t, value + np.arange(count) * 0.5) is None
    missing = np.where(np.random.default_rng(seed).random(count) < 0.5, np.nan, value)
    assert find_period(t, missing) is None


def test_two_pulses_are_no_period_and_three_are():
    assert find_period(*pulses(int(20 * (LEAST_PERIODS - 0.5)), 20, 0.3)) is None
    found = find_period(*pulses(int(20 * (LEAST_PERIODS + 1)), 20, 0.3))
    assert found is not None and found.period / SECOND == pytest.approx(20, abs=0.5)


@pytest.mark.parametrize("period", [10.5, 12.45, 16.0, 24.5, 60.0])
@pytest.mark.parametrize("other", [20.0, 40.0])
def test_two_pulses_of_unlike_height_are_one_period(period, other):
    t, value = pulses(int(12 * period), period, 0.25, noise=4)
    found = find_period(t, value + pulses(len(t), period, 0.25, high=other, phase=0.8)[1])
    assert found is not None and found.period / SECOND == pytest.approx(period, rel=0.02)


def test_samples_may_be_missing_double_and_uneven():
    t, value = pulses(400, 25, 0.4, noise=3)
    rng = np.random.default_rng(3)
    keep = np.sort(rng.choice(400, 320, replace=False))
    t = np.sort(t[keep] + rng.integers(-SECOND // 10, SECOND // 10, len(keep)))
    value = np.where(rng.random(len(keep)) < 0.1, np.nan, value[keep])
    found = find_period(np.repeat(t, 2), np.repeat(value, 2))
    assert found is not None and found.period / SECOND == pytest.approx(25, rel=0.02)
    assert found.duty == pytest.approx(0.4, abs=0.05)


def test_a_long_hole_does_not_cost_memory_or_the_period():
    t, value = pulses(300, 20, 0.5)
    away = np.concatenate([t, t[:5] + 10**6 * SECOND])
    found = find_period(away, np.concatenate([value, value[:5]]))
    assert found is not None and found.period / SECOND == pytest.approx(20, rel=0.02)


@pytest.mark.parametrize("period", [7.3, 60.0, 5000.0, 30_000.0])
def test_long_series_have_short_and_long_periods(period):
    t, value = pulses(300_000, period, 0.4, noise=10)
    found = find_period(t, value)
    assert found is not None and found.period / SECOND == pytest.approx(period, rel=0.01)
    assert found.duty == pytest.approx(0.4, abs=0.03)


def test_few_samples_a_period_may_be_an_alias():
    coarse = find_period(*pulses(300, 3, 0.34))
    assert coarse is not None and coarse.coarse
    fine = find_period(*pulses(300, 30, 0.34))
    assert fine is not None and not fine.coarse


def test_levels_are_the_medians_of_two_groups():
    assert levels(np.array([0.0, 1, 2, 98, 99])) == (1.0, 98.5, 49.75)
    assert levels(np.array([4.0, 4, 4])) == (4.0, 4.0, 4.0)
