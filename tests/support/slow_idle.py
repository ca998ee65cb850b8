"""Idle time of torch traces by the definition, in plain and slow Python, to compare the program with.

Nothing of the program is used. All times are integer nanoseconds.
"""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

from tests.support.slow_torch import OPERATIONS, ns

Event = dict[str, Any]
Interval = tuple[int, int]
CALLS = {"cuda_runtime", "cuda_driver", "runtime"}


@dataclass(frozen=True)
class Launch:
    """The call that launched an operation."""

    start: int
    end: int
    thread: tuple[str, str]


@dataclass(frozen=True)
class Gap:
    """Time in which a device ran nothing, with the launch of the operation that ended it and the step of that."""

    start: int
    end: int
    launch: Launch | None
    step: int | None


class SlowTorch:
    """A trace with one device: its threads, its gaps and its steps."""

    def __init__(self, events: list[Event]) -> None:
        whole = [e for e in events if e.get("ph") == "X"]
        self.threads: dict[tuple[str, str], list[Event]] = defaultdict(list)
        self.everywhere: list[Interval] = []
        launches: dict[object, Launch] = {}
        ops: list[tuple[int, int, object]] = []
        marks = []
        for event in whole:
            kind, arguments = str(event.get("cat")).lower(), event.get("args") or {}
            start = ns(event["ts"])
            end = max(start, start + ns(event.get("dur", 0)))
            key = arguments.get("correlation")
            if kind in OPERATIONS:
                ops.append((start, end, key))
                continue
            thread = (str(event.get("pid")), str(event.get("tid")))
            self.threads[thread].append(event | {"start": start, "end": end, "kind": kind})
            if kind == "overhead":
                self.everywhere.append((start, end))
            if kind in CALLS and key is not None and (key not in launches or start < launches[key].start):
                launches[key] = Launch(start, end, thread)
            if (
                found := re.fullmatch(r"ProfilerStep\s*#\s*(\d+)", str(event.get("name")))
                if kind not in CALLS
                else None
            ):
                marks.append((start, end, int(found[1])))
        self.marks = sorted(set(marks))
        self.ops = [(start, end, launches.get(key)) for start, end, key in sorted(ops, key=lambda op: op[:2])]
        self.span = self.ops[0][0], max(op[1] for op in self.ops)
        self.gaps = list(self._gaps())

    def step_of(self, launch: Launch | None) -> int | None:
        """The step in which a launch was made: the mark that began last before it; the last one holds until its end."""
        k = bisect_right(self.marks, (launch.start, 1 << 62, 0)) - 1 if launch else -1
        if launch is None or k < 0 or (k == len(self.marks) - 1 and launch.start >= self.marks[k][1]):
            return None
        return self.marks[k][2]

    def _gaps(self) -> Iterable[Gap]:
        begins = [op[0] for op in self.ops]
        until = self.ops[0][0]
        for start, end, _ in self.ops:
            if end > start > until:
                same = self.ops[bisect_left(begins, start) : bisect_right(begins, start)]
                launch = min((op[2] for op in same if op[2]), key=lambda found: found.start, default=None)
                yield Gap(until, start, launch, self.step_of(launch))
            until = max(until, end)

    def counted_steps(self) -> list[int]:
        """Device steps without warm-up and without a first one that has nothing before it."""
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for start, end, launch in self.ops:
            step = self.step_of(launch)
            if step is not None:
                first[step], last[step] = min(first.get(step, start), start), max(last.get(step, end), end)
        before = {gap.end: gap.start for gap in self.gaps}
        order = sorted(first, key=lambda step: first[step])
        starts = [before.get(first[step], first[step]) for step in order]
        lengths = [b - a for a, b in zip(starts, [*starts[1:], last[order[-1]]], strict=True)]
        skipped = 0
        while skipped < len(lengths) - 1 and lengths[skipped] > 1.5 * median(lengths[skipped + 1 :]):
            skipped += 1
        return order[max(skipped, int(starts[0] <= self.span[0])) :]

    def before_launch(self, gap: Gap) -> Interval | None:
        """The part of a gap before its launch began."""
        if gap.launch is None or gap.launch.start <= gap.start:
            return None
        return gap.start, min(gap.launch.start, gap.end)

    def open_before_launch(self, wanted: Callable[[Event], bool]) -> dict[int | None, int]:
        """Idle time by step, before the launches, in which one of the wanted events is open on the launching thread."""
        mine = {
            thread: [(e["start"], e["end"]) for e in events if wanted(e)] for thread, events in self.threads.items()
        }
        out: dict[int | None, int] = defaultdict(int)
        for gap in self.gaps:
            if (part := self.before_launch(gap)) and gap.launch:
                out[gap.step] += measure(clipped(mine[gap.launch.thread], *part))
        return out

    def innermost(self, among: Callable[[Event], bool], wanted: Callable[[Event], bool]) -> dict[int | None, int]:
        """Idle time by step whose stack has a wanted event as the innermost one of those among which it is looked for.

        Before a launch what is open at each instant; from there on what was open when the launch began.
        """
        mine = {
            thread: sorted((e for e in events if among(e)), key=lambda e: (e["start"], -e["end"]))
            for thread, events in self.threads.items()
        }
        out: dict[int | None, int] = defaultdict(int)
        for gap in self.gaps:
            if gap.launch is None:
                continue
            events = [
                e
                for e in mine[gap.launch.thread]
                if e["start"] <= gap.launch.start and e["end"] > min(gap.start, gap.launch.start)
            ]
            if part := self.before_launch(gap):
                edges = sorted({*part, *(x for e in events for x in (e["start"], e["end"]) if part[0] < x < part[1])})
                for low, high in pairwise(edges):
                    found = [e for e in events if e["start"] <= low < e["end"]]
                    if found and wanted(found[-1]):
                        out[gap.step] += high - low
            found = [e for e in events if e["start"] <= gap.launch.start < e["end"]]
            if found and wanted(found[-1]):
                out[gap.step] += gap.end - (part[1] if part else gap.start)
        return out


def clipped(intervals: Iterable[Interval], low: int, high: int) -> list[Interval]:
    """The parts of intervals within bounds."""
    return [(max(a, low), min(b, high)) for a, b in intervals if a < high and b > low]


def measure(intervals: Iterable[Interval]) -> int:
    """The measure of a union of intervals."""
    total, until = 0, None
    for low, high in sorted(intervals):
        begin = low if until is None else max(low, until)
        total += max(0, high - begin)
        until = high if until is None else max(until, high)
    return total


def python_function(event: Event) -> str | None:
    """The function of a Python frame, as the trace names it."""
    found = re.fullmatch(r".*\.py\(\d+\): (.+)", str(event.get("name"))) if event["kind"] == "python_function" else None
    return found[1] if found else None
