"""Kernels of files that hold averages over launches only: their time is that average, as often as they ran."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod

from traceanalyzer.passes.kernel_pages import IS_DURATION, rounding_of_duration
from traceanalyzer.passes.scope import Scope

_NUMBER = re.compile(r"\d+")


@dataclass
class _Kernel:
    """A kernel of a size: its launches, their time, and how far that may be off because of the decimals printed."""

    launches: int = 0
    total_ns: float | None = None
    rounding_ns: float = 0

    def add(self, launches: int, average_ns: float | None, rounding_ns: float) -> None:
        self.launches += launches
        if average_ns is not None:
            self.total_ns = (self.total_ns or 0) + launches * average_ns
            self.rounding_ns += launches * rounding_ns


_Key = tuple[str, int | None, int | None]


@dataclass
class _Capture:
    name: str
    run: str
    processes: set[int] = field(default_factory=set)
    kernels: dict[_Key, _Kernel] = field(default_factory=dict)

    @property
    def launches(self) -> int:
        return sum(kernel.launches for kernel in self.kernels.values())


def averaged_kernels(scope: Scope) -> tuple[list[tuple[str, int, int | None]], list[str]]:
    """(kernel, launches, total time) of the files that have averages only, and sentences that say so.

    Where several files of a run are summaries of one report, that with most launches counts.
    """
    said: list[str] = []
    counted: list[_Capture] = []
    for capture in sorted(_captures(scope), key=lambda c: -c.launches):
        same = next((other for other in counted if _are_one(other, capture)), None)
        if same is None:
            counted.append(capture)
            said.append(
                f"{capture.name} holds averages over launches only: times are average durations x invocations, and no"
                " launch can be judged; the raw page has each: ncu --import REPORT --csv --page raw"
            )
        else:
            said.append(f"{capture.name} is left out: it holds the same kernels as {same.name}, of the same report")
    rows = [
        (key[0], kernel.launches, None if kernel.total_ns is None else round(kernel.total_ns))
        for capture in counted
        for key, kernel in capture.kernels.items()
    ]
    return rows, said


def _captures(scope: Scope) -> Iterable[_Capture]:
    """The captures that have averages and no launch; rows of one kernel in several ranges are added up."""
    rows = scope.connection.execute(
        f"""SELECT s.capture, regexp_extract(c.path, '[^/\\\\]*$'), c.run, s.process, s.kernel, s.grid, s.block,
            max(s.invocations), max(s.average) FILTER (duration), max(s.printed_unit) FILTER (duration),
            bool_or(s.section IS NULL) FILTER (duration)
        FROM (
            SELECT *, metric_unit = 'ns' AND {IS_DURATION} AS duration FROM kernel_summaries
            WHERE capture IN {scope.numbers()} AND ($device IS NULL OR device = $device) AND kernel IS NOT NULL
        ) s JOIN stored.captures c ON c.capture = s.capture
        WHERE s.capture NOT IN (SELECT capture FROM stored.kernel_profiles)
        GROUP BY 1, 2, 3, 4, 5, 6, 7, s.device, s.nvtx_ranges ORDER BY 1, 2, 3, 4, 5, 6, 7""",
        {"device": scope.selection.device},
    ).fetchall()
    found: dict[int, _Capture] = {}
    for number, name, run, process, kernel, grid, block, launches, average, unit, raw in rows:
        capture = found.setdefault(number, _Capture(name, run))
        if process is not None:
            capture.processes.add(process)
        key = (kernel, _size(grid), _size(block))
        capture.kernels.setdefault(key, _Kernel()).add(launches or 0, average, rounding_of_duration(unit, raw))
    return found.values()


def _size(text: str | None) -> int | None:
    """How many blocks or threads; old summaries print just that instead of three sizes."""
    numbers = _NUMBER.findall(text or "")
    return prod(map(int, numbers)) if numbers else None


def _are_one(one: _Capture, two: _Capture) -> bool:
    """Whether two summaries are of one report: kernels that ran equally often took the same time in both."""
    if one.run != two.run or (one.processes and two.processes and not one.processes & two.processes):
        return False
    agreeing = 0
    for key in one.kernels.keys() & two.kernels.keys():
        a, b = one.kernels[key], two.kernels[key]
        if a.launches != b.launches or a.total_ns is None or b.total_ns is None:
            continue
        if abs(a.total_ns - b.total_ns) > a.rounding_ns + b.rounding_ns:
            return False
        agreeing += 1
    return agreeing > 0
