"""Periods of sampled series: planted ones are found, noise and constants have none."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from traceanalyzer.passes.telemetry.periods import LEAST_PERIODS, WHITE_NOISE, find_period, levels

SECOND = 10**9


def pulses(count, period, duty, *, low=0.0, high=100.0, noise=0.0, seed=0, phase=0.3):
    """Samples a second apart of a signal that is high for a share of each period."""
    at = np.arange(count)
    value = np.where((at / period + phase) % 1 < duty, high, low)
    return at * SECOND, value + np.random.default_rng(seed).normal(0, noise, count)


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
def test_a_planted_period_is_found_with_its_duty_and_levels(period, duty, periods, noise, seed, phase):
    count = int(period * periods) + 1
    if count < 20:
        return
    t, value = pulses(count, period, duty, noise=noise, seed=seed, phase=phase)
    found = find_period(t, value)
    if found is None:
        # Only few samples of few periods may be too little to tell the signal from noise: those that a period later
        # correlate by less than noise without memory may.
        lag = round(period)
        likeness = np.corrcoef(value[:-lag], value[lag:])[0, 1]
        assert periods < 6 or count < 60 or likeness < 1.1 * WHITE_NOISE / np.sqrt(count - lag)
        return
    if abs(found.period / SECOND - period) > max(0.02 * period, 1.0):
        # Few samples a period: the multiple that falls on whole samples may be all that is seen.
        assert period < 10 and abs(found.period / SECOND / period - round(found.period / SECOND / period)) < 0.1
        return
    assert found.duty == pytest.approx(duty, abs=1.5 / period + 0.03)
    assert found.low == pytest.approx(0, abs=3 + noise) and found.high == pytest.approx(100, abs=3 + noise)


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
