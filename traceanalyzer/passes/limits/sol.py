"""NVIDIA's SpeedOfLight rule (SOLBottleneck): which of compute and memory a kernel uses more of, or neither.

Inputs are the compute and the memory throughput in percent of their peaks, and the waves of blocks a multiprocessor.
The rule is the same in all versions of ncu since 2020; that of a report saw values that print rounded.
"""

import re
from enum import StrEnum

HIGH_PCT = 80.0
"""Throughput from which on a unit is at its limit."""
LOW_PCT = 60.0
"""Throughput below which a unit does not limit."""
APART_PCT = 10.0
"""Difference from which on one of two used units is the one that limits."""
FULL_WAVES = 1.0


class SolClass(StrEnum):
    """Results of NVIDIA's rule SOLBottleneck."""

    HIGH_THROUGHPUT = "high_throughput"
    SMALL_GRID = "small_grid"
    LATENCY_ISSUE = "latency_issue"
    HIGH_COMPUTE = "high_compute"
    HIGH_MEMORY = "high_memory"
    BALANCED = "balanced"


# The wording is the same since 2020, but that later versions say "workload" where older ones say "kernel".
_WORDING = (
    (re.compile(r"grid is too small", re.IGNORECASE), SolClass.SMALL_GRID),
    (re.compile(r"low compute throughput and memory bandwidth", re.IGNORECASE), SolClass.LATENCY_ISSUE),
    (re.compile(r"memory is more heavily utilized", re.IGNORECASE), SolClass.HIGH_MEMORY),
    (re.compile(r"compute is more heavily utilized", re.IGNORECASE), SolClass.HIGH_COMPUTE),
    (re.compile(r"well[- ]balanced", re.IGNORECASE), SolClass.BALANCED),
    (re.compile(r"greater than 80", re.IGNORECASE), SolClass.HIGH_THROUGHPUT),
)


def sol_class(compute_pct: float | None, memory_pct: float | None, waves: float | None) -> SolClass | None:
    """NVIDIA's rule over compute and memory throughput and the waves a multiprocessor.

    None where one of the two is unknown, or where both are low and the waves are.
    """
    if compute_pct is None or memory_pct is None:
        return None
    if compute_pct >= HIGH_PCT or memory_pct >= HIGH_PCT:
        return SolClass.HIGH_THROUGHPUT
    if compute_pct < LOW_PCT and memory_pct < LOW_PCT:
        if waves is None:
            return None
        return SolClass.SMALL_GRID if waves < FULL_WAVES else SolClass.LATENCY_ISSUE
    if abs(compute_pct - memory_pct) >= APART_PCT:
        return SolClass.HIGH_COMPUTE if compute_pct > memory_pct else SolClass.HIGH_MEMORY
    return SolClass.BALANCED


def stated_class(verdict: str | None) -> SolClass | None:
    """The class that NVIDIA's own words name; None where they are missing or unknown."""
    return next((kind for words, kind in _WORDING if words.search(verdict or "")), None)
