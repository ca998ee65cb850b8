"""What limits a kernel that ncu profiled, with the metric and threshold behind it.

The class follows NVIDIA's SpeedOfLight rule; what it leaves open is taken from the other metrics: which memory, and why
a kernel waits. Thresholds of tail, occupancy and grid are those of NVIDIA's own rules for them.
"""

from collections.abc import Mapping
from typing import Any

from traceanalyzer.passes.limits.limit import Limit, Limited
from traceanalyzer.passes.limits.sol import APART_PCT, FULL_WAVES, HIGH_PCT, LOW_PCT, SolClass

LOW_OCCUPANCY_PCT = 80.0
"""Theoretical occupancy below which it is worth a look (rule Occupancy, 2024)."""
OCCUPANCY_APART_PCT = 10.0
"""Points by which achieved occupancy may be under the theoretical one (rule Occupancy)."""
TAIL_SHARE = 0.2
"""Share of the time that the last, partial wave takes, from which on it matters (rule LaunchConfiguration)."""
TAIL_OCCUPANCY = 0.8
"""And only where achieved occupancy is under this share of the theoretical one."""
_MEMORIES = (("DRAM", "dram_pct"), ("L2", "l2_pct"), ("L1", "l1_pct"))

Profile = Mapping[str, Any]


def limit_of(profile: Profile, kind: SolClass | None) -> Limited:
    """What limits a profiled launch. Without a class of NVIDIA's rule it says what is not in the file."""
    if kind is None:
        return Limited(None, _missing(profile))
    if kind is SolClass.SMALL_GRID:
        return Limited(Limit.LATENCY_BOUND, _small_grid(profile))
    if kind is SolClass.LATENCY_ISSUE:
        return Limited(Limit.LATENCY_BOUND, f"{_used(profile)}, both under {LOW_PCT:.0f} %: {_waiting(profile)}")
    if kind is SolClass.BALANCED:
        return Limited(Limit.BALANCED, f"{_used(profile)}: less than {APART_PCT:.0f} points apart")
    compute, memory = profile["compute_pct"], profile["memory_pct"]
    if kind is SolClass.HIGH_MEMORY or (compute is not None and memory is not None and memory > compute):
        return Limited(Limit.MEMORY_BOUND, _memory(profile))
    if compute is None and kind is SolClass.HIGH_THROUGHPUT:
        return Limited(None, f"compute or memory is at {HIGH_PCT:.0f} % or more: the file does not tell which")
    return Limited(Limit.COMPUTE_BOUND, _compute(profile))


def _used(profile: Profile) -> str:
    return f"compute {_pct(profile['compute_pct'])} and memory {_pct(profile['memory_pct'])}"


def _pct(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.0f} %"


def _compute(profile: Profile) -> str:
    compute, memory, tensor = profile["compute_pct"], profile["memory_pct"], profile["tensor_pct"]
    pipe = f", tensor pipe {tensor:.0f} %" if tensor is not None and tensor >= LOW_PCT else ""
    if compute is not None and compute >= HIGH_PCT:
        return f"compute {compute:.0f} %{pipe}: nothing left to gain in this kernel, only fewer operations help"
    rest = f" and memory {memory:.0f} %" if memory is not None else ""
    return f"compute {_pct(compute)}{rest}{pipe}: fewer or cheaper instructions"


def _memory(profile: Profile) -> str:
    memory, compute = profile["memory_pct"], profile["compute_pct"]
    where, share = _which_memory(profile)
    what = {
        "DRAM": "fewer bytes: fusion, smaller types, access pattern",
        "L2": "access pattern, locality: traffic between L2 and the multiprocessors",
        "L1": "access pattern: shared memory and L1, bank conflicts",
    }.get(where, "access pattern, fusion")
    named = f" ({where} {share:.0f} %)" if where else ""
    return f"memory {_pct(memory)}{named} and compute {_pct(compute)}: {what}"


def _which_memory(profile: Profile) -> tuple[str, float]:
    """The memory whose throughput is that of all memory, DRAM first; empty where none is near it."""
    memory = profile["memory_pct"]
    known = [(name, profile[column]) for name, column in _MEMORIES if profile[column] is not None]
    if memory is None or not known:
        return "", 0.0
    name, share = min(known, key=lambda part: abs(part[1] - memory))
    return (name, share) if abs(share - memory) < APART_PCT else ("", 0.0)


def _small_grid(profile: Profile) -> str:
    waves = profile["waves_per_multiprocessor"]
    seen = "the grid" if waves is None else f"the grid fills {waves:.2f} of a wave (under {FULL_WAVES:.0f})"
    return f"small grid: {seen}: more blocks, or other work beside it"


def _waiting(profile: Profile) -> str:
    """Why a kernel waits although its grid is large enough: tail, low occupancy, else dependencies."""
    waves, achieved, theory = (
        profile[name] for name in ("waves_per_multiprocessor", "occupancy_pct", "theoretical_occupancy_pct")
    )
    if waves is not None and achieved is not None and theory is not None and _has_tail(waves, achieved, theory):
        return f"tail: {waves:.2f} waves, so the last one takes {100 / (int(waves) + 1):.0f} % of the time part filled"
    if theory is not None and theory < LOW_OCCUPANCY_PCT:
        return (
            f"low occupancy: {theory:.0f} % at most (under {LOW_OCCUPANCY_PCT:.0f} %){_by_what(profile)}:"
            " fewer registers or less shared memory, or more work a thread in flight"
        )
    if theory is not None and achieved is not None and theory - achieved > OCCUPANCY_APART_PCT:
        return f"low occupancy: {achieved:.0f} % of {theory:.0f} % achieved: blocks of unequal work, or too few warps"
    if achieved is not None:
        return f"dependency: occupancy {achieved:.0f} % is enough, warps wait for results or for memory"
    return "it waits; the file has no occupancy that would tell why"


def _has_tail(waves: float, achieved: float, theory: float) -> bool:
    whole = int(waves)
    return whole >= 1 and waves > whole and 1 / (whole + 1) >= TAIL_SHARE and achieved < TAIL_OCCUPANCY * theory


def _by_what(profile: Profile) -> str:
    registers, dynamic, static = (
        profile[name] for name in ("registers_per_thread", "dynamic_shared_bytes", "static_shared_bytes")
    )
    parts = [] if registers is None else [f"{registers} registers a thread"]
    shared = (dynamic or 0) + (static or 0)
    parts += [f"{shared / 1024:.0f} KiB of shared memory a block"] if shared else []
    return f", with {' and '.join(parts)}" if parts else ""


def _missing(profile: Profile) -> str:
    wanted = {
        "compute_pct": "compute throughput",
        "memory_pct": "memory throughput",
        "waves_per_multiprocessor": "waves a multiprocessor",
    }
    return "not in the file: " + ", ".join(words for name, words in wanted.items() if profile[name] is None)
