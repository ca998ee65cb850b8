"""Which processes use a card, how much of it, and whether they are those that were traced."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from traceanalyzer.passes.answer import Finding
from traceanalyzer.passes.scope import Scope
from traceanalyzer.passes.telemetry.names import plain
from traceanalyzer.passes.telemetry.series import Place, telemetry_captures
from traceanalyzer.passes.telemetry.traces import Traces
from traceanalyzer.units import Unit, format_value

_MEMORY = re.compile(r"fb|used_gpu_memory|processes_used(_gpu)?_memory|compute_app_used_memory_bytes|gpu_memory")
_BYTES = {"MiB": 2.0**20, "MB": 2.0**20, "KiB": 2.0**10, "GiB": 2.0**30, "bytes": 1.0}
_MOST_NAMED = 4


@dataclass(slots=True)
class Process:
    """A process on a device, by one source. `begun` and `ended` order it in its file, as instants where `timed`."""

    place: Place
    process: int
    source: str
    names: set[str] = field(default_factory=set)
    traced: bool | None = None
    utilization_pct: float | None = None
    memory_activity_pct: float | None = None
    memory_bytes: int | None = None
    samples: int = 0
    begun: int = 0
    ended: int = 0
    timed: bool = False

    def row(self) -> tuple[object, ...]:
        """Its row of the table `processes`."""
        return (
            *(self.place.capture, self.place.device, self.process, ", ".join(sorted(self.names)) or None, self.traced),
            *(self.utilization_pct, self.memory_activity_pct, self.memory_bytes, self.samples),
            *((self.begun, self.ended) if self.timed else (None, None)),
            self.source,
        )

    def words(self) -> str:
        """The process in a sentence."""
        facts = sorted(self.names)[:1]
        if self.memory_bytes is not None:
            facts.append(format_value(self.memory_bytes, Unit.BYTES))
        if self.utilization_pct is not None:
            facts.append(f"{self.utilization_pct:.0f} % of the time")
        return f"{self.process}" + (f" ({', '.join(facts)})" if facts else "")


def find_processes(scope: Scope, traces: Traces) -> list[Process]:
    """Every process that telemetry tells of, those of most memory first on each device."""
    found: dict[tuple[Place, int, str], Process] = {}
    for capture in telemetry_captures(scope):
        rows = scope.connection.execute(
            """SELECT m.device, m.process, s.text, n.text, coalesce(u.text, ''), i.text, count(*), avg(m.value),
                max(m.value), min(coalesce(m.t_ns, m.tick, 0)), max(coalesce(m.t_ns, m.tick, 0)), count(m.t_ns) > 0
            FROM stored.metric_samples m JOIN stored.names s ON s.name_id = m.source
            JOIN stored.names n ON n.name_id = m.metric LEFT JOIN stored.names u ON u.name_id = m.metric_unit
            LEFT JOIN stored.names i ON i.name_id = m.instance
            WHERE m.capture = ? AND m.process IS NOT NULL AND m.device IS NOT NULL GROUP BY ALL ORDER BY ALL""",
            [capture],
        ).fetchall()
        for device, process, source, metric, unit, name, count, mean, most, begun, ended, timed in rows:
            if scope.selection.device not in (None, device):
                continue
            key = Place(capture, device), process, source
            if key not in found:
                found[key] = Process(*key, begun=begun, ended=ended, timed=timed)
            mine = found[key]
            mine.samples = max(mine.samples, count)
            mine.begun, mine.ended = min(mine.begun, begun), max(mine.ended, ended)
            mine.names.update([name] if name else [])
            _take(mine, metric, unit, mean, most)
    _mark_traced(list(found.values()), traces)
    most = {
        (p.place, p.process): p.memory_bytes or 0 for p in sorted(found.values(), key=lambda p: p.memory_bytes or 0)
    }
    return sorted(found.values(), key=lambda p: (p.place, -most[p.place, p.process], p.process, p.source))


def _take(process: Process, metric: str, unit: str, mean: float | None, most: float | None) -> None:
    text = plain(metric)
    if text == "sm":
        process.utilization_pct = mean
    elif text == "mem":
        process.memory_activity_pct = mean
    elif most is not None and _MEMORY.fullmatch(text) and unit in _BYTES:
        process.memory_bytes = max(process.memory_bytes or 0, round(most * _BYTES[unit]))


def _mark_traced(found: Sequence[Process], traces: Traces) -> None:
    """Tells traced processes from others where at least one pid is the same: another name space has other pids."""
    for run in sorted({traces.clocks[p.place.capture].run for p in found}):
        mine = [p for p in found if traces.clocks[p.place.capture].run == run]
        traced = traces.processes(run)
        if traced & {p.process for p in mine}:
            for process in mine:
                process.traced = process.process in traced


def process_findings(found: Sequence[Process], traces: Traces) -> list[Finding]:
    """Neighbours of the traced processes on their cards; without a trace cards that several processes share."""
    findings = []
    told: set[tuple[str, int]] = set()
    for place in sorted({p.place for p in found}):
        key = traces.clocks[place.capture].run, place.device
        mine = [p for p in found if p.place == place]
        if key in told:
            continue
        finding = _neighbours(place, mine) or _shared(place, mine)
        if finding is not None:
            told.add(key)
            findings.append(finding)
    return findings


def _neighbours(place: Place, mine: Sequence[Process]) -> Finding | None:
    if not any(p.traced for p in mine):
        return None
    others = _several([p for p in mine if p.traced is False])
    if not others:
        return None
    text = f"{place.words()}: {others} on the card and not in the trace: another job, or a part of this one"
    return Finding("neighbours", text)


def _shared(place: Place, mine: Sequence[Process]) -> Finding | None:
    """Processes that were there at the same time."""
    if any(p.traced for p in mine):
        return None
    together = [
        p
        for p in mine
        if any(
            o.process != p.process and o.source == p.source and o.begun <= p.ended and p.begun <= o.ended for o in mine
        )
    ]
    if not together:
        return None
    text = f"{place.words()}: {_several(together)} on the card at the same time: utilization is that of all together"
    return Finding("shared_device", text)


def _merged(found: Sequence[Process]) -> Process:
    """One process as several sources tell of it."""

    def best(name: str) -> Any:
        return next((value for p in found if (value := getattr(p, name)) is not None), None)

    return replace(
        found[0],
        names=set(min((p.names for p in found if p.names), key=lambda n: len(min(n)), default=())),
        utilization_pct=best("utilization_pct"),
        memory_bytes=best("memory_bytes"),
    )


def _several(found: Sequence[Process]) -> str:
    if not found:
        return ""
    pids = list(dict.fromkeys(p.process for p in found))
    words = [_merged([p for p in found if p.process == pid]).words() for pid in pids]
    more = len(words) - _MOST_NAMED
    named = ", ".join(words[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"process {named} is" if len(words) == 1 else f"processes {named} are"
