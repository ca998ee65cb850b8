"""Kernels of a timeline and launches that ncu profiled: which are the same, by name and geometry."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from traceanalyzer.passes.limits.kernel_names import function_name, has_arguments, same_name
from traceanalyzer.passes.limits.profiled import ProfiledLaunch

Geometry = tuple[str | None, str | None]
"""Grid and block as text; None where not recorded."""


class MatchedBy(StrEnum):
    """How alike a kernel of the timeline and the profiled launches are."""

    GEOMETRY = "geometry"
    NAME = "name"
    FUNCTION = "function"


@dataclass(frozen=True, slots=True)
class Match:
    """Profiled launches of a kernel, and how they were found."""

    launches: list[ProfiledLaunch]
    by: MatchedBy


class Profiles:
    """Profiled launches to find those of a kernel in.

    First those of the same name and geometry; else those of the same name, of whatever geometry; else those of the same
    function and geometry, where ncu printed names without template arguments. Of several kernels that this leaves open,
    whose launches are limited by different things, none is taken.
    """

    def __init__(self, launches: Iterable[ProfiledLaunch]) -> None:
        self._by_name: dict[str, list[ProfiledLaunch]] = defaultdict(list)
        self._by_function: dict[tuple[str, Geometry], list[ProfiledLaunch]] = defaultdict(list)
        for launch in launches:
            name = launch["kernel"] or ""
            self._by_name[same_name(name)].append(launch)
            if not has_arguments(name):
                self._by_function[function_name(name), _geometry(launch)].append(launch)

    def __bool__(self) -> bool:
        return bool(self._by_name)

    def of(self, kernel: str, geometry: Geometry) -> Match | None:
        """The profiled launches of a kernel of the timeline."""
        same = self._by_name.get(same_name(kernel), [])
        alike = [launch for launch in same if _geometry(launch) == geometry]
        if alike and None not in geometry:
            return Match(alike, MatchedBy.GEOMETRY)
        if same:
            return Match(same, MatchedBy.NAME)
        function = self._by_function.get((function_name(kernel), geometry), [])
        if function and len({launch["class"] for launch in function}) == 1:
            return Match(function, MatchedBy.FUNCTION)
        return None


def _geometry(launch: ProfiledLaunch) -> Geometry:
    return launch["grid"], launch["block"]
