"""What limits the kernels of whole devices: sources brought together, and the sentences that say it."""

from collections import defaultdict
from functools import cached_property
from typing import Any

from traceanalyzer.passes.answer import Finding
from traceanalyzer.passes.chosen import Chosen
from traceanalyzer.passes.idle.stacks import StackTree
from traceanalyzer.passes.limits.estimates import Estimates
from traceanalyzer.passes.limits.families import Family
from traceanalyzer.passes.limits.limit import Limit, LimitSource
from traceanalyzer.passes.limits.matching import Profiles
from traceanalyzer.passes.limits.peaks import KnownPeaks
from traceanalyzer.passes.limits.profiled import profiled_launches
from traceanalyzer.passes.limits.timeline import KernelOnTimeline, TimelineKernels, together
from traceanalyzer.passes.scope import PROFILERS, DeviceOfCapture, Scope
from traceanalyzer.units import Unit, format_value

NO_LIMIT = "nothing tells: no ncu profile of it, no samples while it ran alone, no shapes of its operator"
MOST_NAMED = 5
"""Kernels that a sentence names."""
COMMUNICATION = "communication"
"""Stands in the place of a limit for kernels that links and other ranks limit."""
NAME_IN_SENTENCE = 60
LEAST_FAMILY = 0.05
"""Share of the kernel time from which on a family is named."""


class KernelLimits:
    """Finds what limits the kernels of the devices of a scope.

    `launches` are those that ncu profiled, `said` tells which pages of them were left out.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self.peaks = KnownPeaks(scope)
        self.launches, self.said = profiled_launches(scope) if scope.of_source(PROFILERS) else ([], [])
        runs = dict(
            scope.connection.execute(
                f"SELECT capture, run FROM stored.captures WHERE capture IN {scope.numbers()}"
            ).fetchall()
        )
        by_run: dict[str, list[Any]] = defaultdict(list)
        for launch in self.launches:
            by_run[runs[launch["capture"]]].append(launch)
        self._profiles = {run: Profiles(mine) for run, mine in by_run.items()}

    @cached_property
    def tree(self) -> StackTree:
        """The stacks of the store."""
        return StackTree(self._scope)

    def estimates(self, device: DeviceOfCapture, chosen: Chosen) -> Estimates:
        """What shapes tell of the kernels of a device."""
        return Estimates(self._scope, device, chosen, self.peaks.of(device.capture, device.device))

    def kernels(self, device: DeviceOfCapture, chosen: Chosen, estimates: Estimates | None = None) -> TimelineKernels:
        """The kernels of a device with what limits them."""
        profiles = self._profiles.get(device.run, Profiles([]))
        return TimelineKernels(self._scope, device, chosen, profiles, estimates or self.estimates(device, chosen))

    @property
    def has_profiles(self) -> bool:
        """Whether ncu profiled launches of one of the runs."""
        return any(self._profiles.values())


def _by_limit(timeline: TimelineKernels) -> dict[tuple[Limit | None, LimitSource | None], list[KernelOnTimeline]]:
    found: dict[tuple[Limit | None, LimitSource | None], list[KernelOnTimeline]] = defaultdict(list)
    for kernel in timeline.kernels.values():
        use = kernel.use
        known = use is not None and use.limited.limit is not None and not kernel.is_communication
        found[(use.limited.limit, use.source) if use is not None and known else (None, None)].append(kernel)
    return found


def limit_rows(device: DeviceOfCapture, timeline: TimelineKernels) -> list[tuple[Any, ...]]:
    """Rows of time by limit, the largest first."""
    whole = timeline.whole_ns
    place = (device.capture, device.rank, device.device)
    rows = []
    for (limit, source), kernels in _by_limit(timeline).items():
        for communication in (False, True):
            mine = [kernel for kernel in kernels if kernel.is_communication is communication]
            ns = sum(kernel.ns for kernel in mine)
            name = COMMUNICATION if communication else limit and limit.value
            cells = (name, source and source.value, len(mine), ns, ns / whole if whole else None)
            rows += [(*place, *cells)] if mine else []
    return sorted(rows, key=lambda row: (-row[6], row[3] or "", row[4] or ""))


def coverage_finding(scope: Scope, device: DeviceOfCapture, timeline: TimelineKernels) -> list[Finding]:
    """How much of a device's kernel time is in kernels that ncu profiled, by name and geometry."""
    if not timeline.whole_ns:
        return []
    covered = timeline.known_by(LimitSource.NCU)
    text = (
        f"ncu's profile covers {format_value(covered / timeline.whole_ns, Unit.SHARE)} of the kernel time of"
        f" {scope.whose(device)}"
    )
    return [Finding("profile_coverage", text, device.rank, covered)]


def limit_findings(scope: Scope, device: DeviceOfCapture, timeline: TimelineKernels) -> list[Finding]:
    """What most of the kernel time is limited by, the kernels that it is, and how much of the time is known at all."""
    whole = timeline.whole_ns
    by: dict[Limit, list[KernelOnTimeline]] = defaultdict(list)
    sources: dict[LimitSource, int] = defaultdict(int)
    for (limit, source), kernels in _by_limit(timeline).items():
        if limit is not None and source is not None:
            by[limit] += kernels
            sources[source] += sum(kernel.ns for kernel in kernels)
    if not whole or not by:
        return []
    waiting = sum(kernel.ns for kernel in timeline.kernels.values() if kernel.is_communication)
    beside = f"; communication takes {format_value(waiting / whole, Unit.SHARE)}" if waiting else ""
    times = {limit: sum(kernel.ns for kernel in kernels) for limit, kernels in by.items()}
    limit = max(times, key=lambda each: (times[each], each.value))
    largest = sorted(by[limit], key=lambda kernel: (-kernel.ns, kernel.name))[:MOST_NAMED]
    named = ", ".join(f"{_short(k.name)} ({format_value(k.ns / whole, Unit.SHARE)})" for k in largest)
    known = " and ".join(
        f"{format_value(ns / whole, Unit.SHARE)} {_SAYS[source]}" for source, ns in sorted(sources.items())
    )
    text = (
        f"{format_value(times[limit] / whole, Unit.SHARE)} of the kernel time of {scope.whose(device)} is in"
        f" {limit.words} kernels: {named}; a limit is known of {known}{beside}"
    )
    return [Finding("kernel_limits", text, device.rank, times[limit]), *_families(scope, device, timeline)]


def _families(scope: Scope, device: DeviceOfCapture, timeline: TimelineKernels) -> list[Finding]:
    """What the largest families are limited by, each as a whole."""
    parts = []
    by: dict[Family, list[KernelOnTimeline]] = defaultdict(list)
    for kernel in timeline.kernels.values():
        by[kernel.family].append(kernel)
    for family, kernels in sorted(by.items(), key=lambda item: -sum(kernel.ns for kernel in item[1])):
        use, share = together(kernels), sum(kernel.ns for kernel in kernels) / timeline.whole_ns
        if use is not None and use.limited.limit is not None and share >= LEAST_FAMILY:
            how = f"{use.limited.limit.words} ({use.limited.reason})"
            parts.append(f"{family.value} {format_value(share, Unit.SHARE)} {how}")
    if not parts:
        return []
    return [Finding("kernel_families", f"{scope.whose(device)}, as families: {'; '.join(parts)}", device.rank, None)]


_SAYS = {
    LimitSource.NCU: "of that time by ncu's profile",
    LimitSource.GPU_METRICS: "of that time by GPU metrics",
    LimitSource.ESTIMATED: "of that time by estimates from shapes",
}


def _short(name: str) -> str:
    return name if len(name) <= NAME_IN_SENTENCE else f"{name[:NAME_IN_SENTENCE]}..."
