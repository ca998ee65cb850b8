"""What limits a kernel that ncu profiled, with the metric and threshold behind it.

The class follows NVIDIA's SpeedOfLight rule; what it leaves open is taken from the other metrics: which memory, and why
a kernel waits. Thresholds of tail, occupancy and grid are those of NVIDIA's own rules for them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from traceanalyzer.passes.limits.families import MATHEMATICS
from traceanalyzer.passes.limits.kernel_families import family_of
from traceanalyzer.passes.limits.limit import LEAST_TENSOR_PCT, Limit, Limited
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

SAME_PCT = 1.0
"""Compute and memory that are no farther apart are taken for one pipe that counts as both."""
FAR_FROM_ROOF = 0.6
"""Share of its roofline under which a kernel with a full pipe does little arithmetic with it."""

Profile = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Extra:
    """What is known of a launch beside its typed columns.

    `roof_share` is what it reaches of its roofline, `block_limits` how many blocks a multiprocessor can hold, by what
    limits them.
    """

    roof_share: float | None = None
    block_limits: Mapping[str, float] = field(default_factory=dict)


def limit_of(profile: Profile, kind: SolClass | None, extra: Extra | None = None) -> Limited:
    """What limits a profiled launch. Without a class of NVIDIA's rule it says what is not in the file."""
    more = extra or Extra()
    if kind is None:
        return Limited(None, _missing(profile))
    if kind is SolClass.SMALL_GRID:
        return Limited(Limit.LATENCY_BOUND, _small_grid(profile))
    if kind is SolClass.LATENCY_ISSUE:
        waiting = _waiting(profile, more)
        return Limited(Limit.LATENCY_BOUND, f"{_used(profile)}, both under {LOW_PCT:.0f} %: {waiting}")
    if kind is SolClass.BALANCED:
        return Limited(Limit.BALANCED, f"{_used(profile)}: less than {APART_PCT:.0f} points apart")
    compute, memory = profile["compute_pct"], profile["memory_pct"]
    if kind is SolClass.HIGH_MEMORY or _is_memory(compute, memory, more):
        return Limited(Limit.MEMORY_BOUND, _memory(profile))
    if compute is None and kind is SolClass.HIGH_THROUGHPUT:
        return Limited(None, f"compute or memory is at {HIGH_PCT:.0f} % or more: the file does not tell which")
    return Limited(Limit.COMPUTE_BOUND, _compute(profile, more))


def _is_memory(compute: float | None, memory: float | None, extra: Extra) -> bool:
    """Whether it is memory that is used more.

    Where both are the same it is one pipe that both count: that of loads and stores, if little arithmetic is done.
    """
    if compute is None or memory is None:
        return False
    together = abs(compute - memory) < SAME_PCT and extra.roof_share is not None and extra.roof_share < FAR_FROM_ROOF
    return memory > compute or together


def _used(profile: Profile) -> str:
    return f"compute {_pct(profile['compute_pct'])} and memory {_pct(profile['memory_pct'])}"


def _pct(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.0f} %"


def _compute(profile: Profile, extra: Extra) -> str:
    compute, memory, tensor = profile["compute_pct"], profile["memory_pct"], profile["tensor_pct"]
    pipe = f", tensor pipe {tensor:.0f} %" if tensor is not None and tensor >= LOW_PCT else ""
    seen = f"compute {_pct(compute)}{pipe}"
    if tensor is not None and tensor < LEAST_TENSOR_PCT and family_of(profile["kernel"] or "") in MATHEMATICS:
        return f"{seen}: without tensor cores, which do the same in TF32 or 16 bit several times faster"
    if compute is not None and compute >= HIGH_PCT:
        if extra.roof_share is not None and extra.roof_share < FAR_FROM_ROOF:
            roof = f"{100 * extra.roof_share:.0f} % of its roofline"
            return f"{seen}, but {roof}: the full pipe is not that of its arithmetic: loads, stores, addresses"
        return f"{seen}: nothing left to gain in this kernel, only fewer operations help"
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
    seen = "the grid" if waves is None else f"the grid fills {waves:.2g} of a wave (under {FULL_WAVES:.0f})"
    return f"small grid: {seen}: more blocks, or other work beside it"


def _waiting(profile: Profile, extra: Extra) -> str:
    """Why a kernel waits although its grid is large enough: tail, low occupancy, else dependencies."""
    waves, achieved, theory = (
        profile[name] for name in ("waves_per_multiprocessor", "occupancy_pct", "theoretical_occupancy_pct")
    )
    if waves is not None and achieved is not None and theory is not None and _has_tail(waves, achieved, theory):
        return f"tail: {waves:.2f} waves, so the last one takes {100 / (int(waves) + 1):.0f} % of the time part filled"
    uneven = theory is not None and achieved is not None and theory - achieved > OCCUPANCY_APART_PCT
    if theory is not None and theory < LOW_OCCUPANCY_PCT:
        reached = f", {achieved:.0f} % achieved" if uneven else ""
        most = f"{theory:.0f} % at most (under {LOW_OCCUPANCY_PCT:.0f} %)"
        return f"low occupancy: {most}{reached}{_by_what(profile, extra)}"
    if uneven:
        return f"low occupancy: {achieved:.0f} % of {theory:.0f} % achieved: blocks of unequal work, or too few warps"
    if achieved is not None:
        return f"dependency: occupancy {achieved:.0f} % is enough, warps wait for results or for memory"
    return "it waits; the file has no occupancy that would tell why"


def _has_tail(waves: float, achieved: float, theory: float) -> bool:
    whole = int(waves)
    return whole >= 1 and waves > whole and 1 / (whole + 1) >= TAIL_SHARE and achieved < TAIL_OCCUPANCY * theory


def _by_what(profile: Profile, extra: Extra) -> str:
    """What limits the warps that a multiprocessor can hold, and what to do about it."""
    if extra.block_limits:
        least = min(extra.block_limits.values())
        names = [name for name, limit in extra.block_limits.items() if limit == least]
        # What does not limit is printed with the most blocks that the hardware takes.
        names = ["blocks"] if "blocks" in names else names
        return f", limited by {' and '.join(names)}: {_TO_DO[names[0]]}"
    registers, shared = profile["registers_per_thread"], _shared_bytes(profile)
    parts = [] if registers is None else [f"{registers} registers a thread"]
    parts += [f"{shared / 1024:.0f} KiB of shared memory a block"] if shared else []
    return f", with {' and '.join(parts)}" if parts else ""


def _shared_bytes(profile: Profile) -> int:
    return (profile["dynamic_shared_bytes"] or 0) + (profile["static_shared_bytes"] or 0)


_TO_DO = {
    "blocks": "larger blocks",
    "registers": "fewer registers a thread",
    "shared memory": "less shared memory a block",
    "warps": "blocks of another size",
    "barriers": "fewer barriers a block",
}


def _missing(profile: Profile) -> str:
    wanted = {
        "compute_pct": "compute throughput",
        "memory_pct": "memory throughput",
        "waves_per_multiprocessor": "waves a multiprocessor",
    }
    return "not in the file: " + ", ".join(words for name, words in wanted.items() if profile[name] is None)
