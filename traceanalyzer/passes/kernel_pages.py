"""Pages of one report: ncu prints a report in several ways, and each launch in it counts once.

Two captures of a run are pages of one report where launches with the same ids are the same in everything that both
tell, down to the last printed digit, and that is too much to be chance: durations and percentages of two reports
scatter, also where the same program ran twice. In doubt both count.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from traceanalyzer.passes.scope import Scope

Profile = dict[str, Any]
_Key = tuple[int | None, int, int]

_FIXED = (
    *(f"{size}_{axis}" for size in ("grid", "block") for axis in "xyz"),
    "context",
    "stream",
    "device",
    "compute_capability",
    "registers_per_thread",
)
"""Columns that every page prints whole."""
_MEASURED = (
    "compute_pct",
    "memory_pct",
    "dram_pct",
    "l1_pct",
    "l2_pct",
    "l1_hit_pct",
    "l2_hit_pct",
    "occupancy_pct",
)
"""Percentages that scatter from one run of a program to the next."""
_ROUNDING_PCT = 0.0051
"""Two decimals are printed at least."""
_LEAST_AGREEING = 4
"""Measured values that have to agree."""
_LEAST_UNDER_OTHER_NAMES = 10
"""The same where a page prints other names of the kernels: without arguments, or after their NVTX ranges."""
IS_DURATION = r"(metric = 'Duration' OR regexp_matches(metric, '(^|\()gpu__time_duration\.sum\)?$'))"
"""Condition for SQL: whether a metric is the duration, by its label or name."""
_UNIT_NS = {"n": 1, "u": 1e3, "m": 1e6, "s": 1e9}


@dataclass
class _Report:
    """Captures that are pages of one report, first that with most launches and the exactest durations."""

    captures: list[int]
    profiles: list[Profile]
    others: list[list[Profile]] = field(default_factory=list)


def each_launch_once(scope: Scope, profiles: Sequence[Profile]) -> tuple[list[Profile], list[str]]:
    """The launches without those that another page of their report has as well, and which captures were left out.

    What the page that stays does not tell of a launch is filled in from the others.
    """
    of_capture: dict[int, list[Profile]] = {}
    for profile in profiles:
        of_capture.setdefault(profile["capture"], []).append(profile)
    if len(of_capture) < 2:
        return list(profiles), []
    captures = {
        capture: (run, name)
        for capture, run, name in scope.connection.execute(
            f"""SELECT capture, run, regexp_extract(path, '[^/\\\\]*$') FROM stored.captures
            WHERE capture IN {scope.numbers()}"""
        ).fetchall()
    }
    rounding = _rounding_of_durations(scope)
    reports: list[tuple[str, _Report]] = []
    off = {c: round(sum(rounding.get((c, p["launch"]), 1) for p in mine)) for c, mine in of_capture.items()}
    for capture in sorted(of_capture, key=lambda c: (-len(of_capture[c]), off[c], -_told(of_capture[c]), c)):
        run, mine = captures[capture][0], sorted(of_capture[capture], key=lambda p: p["launch"])
        same = [r for of_run, r in reports if of_run == run and _are_one(r.profiles, mine, rounding)]
        if same:
            same[0].captures.append(capture)
            same[0].others.append(mine)
        else:
            reports.append((run, _Report([capture], mine)))
    said = [
        f"capture {other} ({captures[other][1]}) is left out: it holds the same launches as capture"
        f" {report.captures[0]} ({captures[report.captures[0]][1]}), another page of the same report"
        for _, report in reports
        for other in report.captures[1:]
    ]
    return [profile for _, report in reports for profile in _united(report)], said


def _told(profiles: Iterable[Profile]) -> int:
    """How many values a capture tells."""
    return sum(value is not None for profile in profiles for value in profile.values())


def _keyed(profiles: Iterable[Profile], with_process: bool) -> dict[_Key, Profile]:
    """Launches by process and id; a file that holds several reports repeats them."""
    count: Counter[tuple[int | None, int]] = Counter()
    out = {}
    for profile in profiles:
        who = (profile["process"] if with_process else None, profile["id"])
        out[*who, count[who]] = profile
        count[who] += 1
    return out


def _pairs(one: list[Profile], two: list[Profile]) -> list[tuple[Profile | None, Profile]]:
    """Launches of the second capture, each with that of the same id in the first. Reports do not tell the process."""
    with_process = all(profile["process"] is not None for profile in (*one, *two))
    known = _keyed(one, with_process)
    return [(known.get(key), profile) for key, profile in _keyed(two, with_process).items()]


def _are_one(one: list[Profile], two: list[Profile], rounding: dict[tuple[int, int], float]) -> bool:
    agreeing, needed = 0, _LEAST_AGREEING
    for a, b in _pairs(one, two):
        if a is None:
            continue
        if _differ(a, b, _FIXED, 0) or _differ(a, b, _MEASURED, _ROUNDING_PCT):
            return False
        near = sum(rounding.get((p["capture"], p["launch"]), 0.5) for p in (a, b))
        if _differ(a, b, ("duration_ns",), near):
            return False
        agreeing += sum(bool(a[name]) and b[name] is not None for name in (*_MEASURED, "duration_ns"))
        if a["kernel"] != b["kernel"]:
            needed = _LEAST_UNDER_OTHER_NAMES
    return agreeing >= needed


def _differ(a: Profile, b: Profile, names: Iterable[str], near: float) -> bool:
    """Whether a column that both tell differs by more than that."""
    for name in names:
        x, y = a[name], b[name]
        if x is not None and y is not None and x != y and (not near or abs(x - y) > near):
            return True
    return False


def _rounding_of_durations(scope: Scope) -> dict[tuple[int, int], float]:
    """By (capture, launch) how far a duration may be off because of the decimals of its unit, in ns."""
    rows = scope.connection.execute(
        f"""SELECT capture, launch, section IS NULL, printed_unit FROM kernel_metrics
        WHERE capture IN {scope.numbers()} AND printed_unit IS NOT NULL AND {IS_DURATION}"""
    ).fetchall()
    return {(capture, launch): rounding_of_duration(unit, raw) for capture, launch, raw, unit in rows}


def rounding_of_duration(printed_unit: str | None, raw: bool | None) -> float:
    """How far a duration may be off, in ns: it is stored in whole ones, and was printed with six decimals or two.

    `raw` pages have six. Units are told by their first letter in any spelling.
    """
    return max(0.5, _UNIT_NS.get((printed_unit or "")[:1], 0) * (5e-7 if raw else 5e-3))


def _united(report: _Report) -> list[Profile]:
    """Each launch of a report once, with what any of its pages tells."""
    out = report.profiles
    for other in report.others:
        fresh = []
        for known, profile in _pairs(out, other):
            if known is None:
                fresh.append(profile)
            else:
                known.update({name: value for name, value in profile.items() if known[name] is None})
        out = [*out, *fresh]
    return out
