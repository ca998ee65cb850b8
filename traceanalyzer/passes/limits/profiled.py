"""Launches that ncu profiled, each once, with what limits it and where it stands under its roofline."""

from typing import Any

from traceanalyzer.passes.kernel_pages import each_launch_once
from traceanalyzer.passes.limits.profile import Extra, limit_of
from traceanalyzer.passes.limits.roofline import BLOCK_LIMITS, metrics_of_limits, roofline_of
from traceanalyzer.passes.limits.sol import sol_class, stated_class
from traceanalyzer.passes.scope import Scope
from traceanalyzer.schema.kernel_tables import KERNEL_PROFILES

ProfiledLaunch = dict[str, Any]
"""A row of `kernel_profiles` by its columns, with `rank`, grid and block as text, and what was worked out of it."""


def profiled_launches(scope: Scope) -> tuple[list[ProfiledLaunch], list[str]]:
    """The launches that ncu profiled, longest first, and sentences about pages that were left out.

    A launch that several pages of a report hold is there once, with what any of them tells.
    """
    profiles, said = each_launch_once(scope, _profiles(scope))
    metrics = metrics_of_limits(scope) if profiles else {}
    rows = [_row(profile, metrics.get((profile["capture"], profile["launch"]), {})) for profile in profiles]
    return sorted(rows, key=_longest_first), said


def _longest_first(profile: ProfiledLaunch) -> tuple[int, int, int]:
    return -(profile["duration_ns"] or -1), profile["capture"], profile["launch"]


def _profiles(scope: Scope) -> list[dict[str, Any]]:
    names = [*KERNEL_PROFILES.by_name, "rank"]
    device = scope.selection.device
    found = scope.connection.execute(
        f"""SELECT {", ".join(names)} FROM kernel_profiles WHERE capture IN {scope.numbers()}
        AND ($device IS NULL OR device = $device) ORDER BY capture, launch""",
        {"device": device},
    ).fetchall()
    return [dict(zip(names, row, strict=True)) for row in found]


_OF_ROOFLINE = ("tensor_flop", "dram_bytes", "flop_per_s", "intensity", "ridge", "roof_flop_per_s")


def _row(profile: dict[str, Any], metrics: dict[str, float]) -> dict[str, Any]:
    stated = stated_class(profile["nvidia_verdict"])
    computed = sol_class(profile["compute_pct"], profile["memory_pct"], profile["waves_per_multiprocessor"])
    kind = stated or computed
    roofline = roofline_of(profile, metrics)
    block_limits = {BLOCK_LIMITS[name]: value for name, value in metrics.items() if name in BLOCK_LIMITS}
    limited = limit_of(profile, kind, Extra(roofline.reached, block_limits))
    return {
        **profile,
        **{name: getattr(roofline, name) for name in _OF_ROOFLINE},
        "roof_share": roofline.reached,
        "grid": _sizes(profile, "grid"),
        "block": _sizes(profile, "block"),
        "sol_class": None if kind is None else kind.value,
        "sol_source": None if kind is None else "nvidia" if stated else "rule",
        "class": limited.limit and limited.limit.value,
        "reason": limited.reason,
    }


def _sizes(profile: dict[str, Any], name: str) -> str | None:
    sizes = [profile[f"{name}_{axis}"] for axis in "xyz"]
    return None if None in sizes else f"({sizes[0]}, {sizes[1]}, {sizes[2]})"
