"""One aligned timeline of a run as a file that Perfetto and chrome://tracing open, and that this program reads back."""

from dataclasses import asdict, replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from traceanalyzer.errors import UsageError
from traceanalyzer.export.formats import FORMATS
from traceanalyzer.export.placing import placed, refuse_to_replace, size_of
from traceanalyzer.export.tables import FILES, OTHER_FORMATS
from traceanalyzer.export.timeline.clocks import TimelineClock
from traceanalyzer.export.timeline.communication import write_communication
from traceanalyzer.export.timeline.counters import Counters
from traceanalyzer.export.timeline.derived import write_steps_and_gaps
from traceanalyzer.export.timeline.places import Places
from traceanalyzer.export.timeline.recorded import Recorded
from traceanalyzer.export.timeline.stream import EventStream
from traceanalyzer.export.timeline.windows import Windows, first_instant, last_instant
from traceanalyzer.passes.answer import Answer, Frame
from traceanalyzer.passes.communication.ranks import communication_of
from traceanalyzer.passes.gaps import no_timeline
from traceanalyzer.passes.scope import Scope
from traceanalyzer.passes.selection import Selection
from traceanalyzer.schema.timeline_file import HEADER
from traceanalyzer.version import __version__

VIEWERS = "open it at https://ui.perfetto.dev or in chrome://tracing"


def export_timeline(scope: Scope, target: Path, *, force: bool = False) -> Answer:
    """Write the selected part of a run as a Chrome trace, gzipped where the name ends in .gz; table `files`.

    All times are on the clock of the first rank, as `--align` says, in microseconds with three decimals, exact.

    Raises `UsageError` where the name means another format, where the file exists and `force` does not allow to replace
    it, and for several runs, which have no common clock, or none with a timeline; `ExportError` where it cannot be
    written.
    """
    suffix = target.suffix.lower()
    if suffix in (OTHER_FORMATS | {each.suffix for each in FORMATS.values()}) - {".json", ".gz"}:
        raise UsageError(f"{target}: a timeline is no {suffix} file; give a name that ends in .json or .json.gz")
    if target.is_dir():
        raise UsageError(f"{target}: is a folder; give the name of a file that ends in .json or .json.gz")
    refuse_to_replace([target], force)
    if len(scope.runs) > 1:
        raise UsageError(f"runs {', '.join(scope.runs)} have no common clock: name one with --run")
    timeline = _Timeline(scope)
    with (
        placed(target) as path,
        path.open("wb") as file,
        EventStream(file, scope.connection, compressed=suffix == ".gz") as stream,
    ):
        timeline.write(stream)
    row = ("timeline", stream.events, size_of(target), str(target))
    return Answer(
        "export",
        {"files": Frame.of_rows(FILES, [row])},
        warnings=[*scope.warnings, *timeline.clock.notes, *timeline.left_out],
        notes=[scope.note(), *timeline.notes, VIEWERS],
    )


class _Timeline:
    """Everything that a timeline is made of. Raises `UsageError` where nothing of a timeline is selected."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._places = Places(scope)
        if not self._places.captures:
            raise UsageError(no_timeline(scope) or "there is no trace in what is selected, so there is no timeline")
        self._windows = Windows(scope, self._places.captures)
        self._communication = communication_of(scope)
        self.clock = TimelineClock(scope, self._communication)
        self.notes = [*self.clock.drifting(self._places.members()), *self._windows.notes()]
        self.left_out: list[str] = []
        self._set_origin()

    def _set_origin(self) -> None:
        """The timeline begins with its first event."""
        first, last = [], []
        for capture, rank in self._places.members():
            window = self._windows.hull(capture)
            begun, ended = first_instant(self._scope, capture, window), last_instant(self._scope, capture, window)
            if begun is not None and ended is not None:
                edges = self.clock.timeline(capture, rank, np.array([begun, ended]))
                first.append(int(edges[0]))
                last.append(int(edges[1]))
        if not first:
            raise UsageError("nothing was recorded in what is selected, so there is no timeline")
        self.clock.origin_ns = min(first)
        self._last_ns = max(last) - min(first)

    def write(self, stream: EventStream) -> None:
        """Writes the file."""
        scope, places, windows, clock = self._scope, self._places, self._windows, self.clock
        stream.begin(self._about())
        Recorded(scope, places, windows, clock).write(stream)
        write_steps_and_gaps(scope, places, clock, stream)
        write_communication(self._communication, places, windows, clock, stream)
        counters = Counters(scope, places, windows, clock, self._last_ns)
        counters.write(stream)
        self.left_out = counters.left_out
        places.write_names(stream, clock)

    def _about(self) -> dict[str, object]:
        """What stands before the events. Unix time is said only where it is known."""
        clock, places = self.clock, self._places
        utc = clock.utc_offset_ns
        ranks = sorted({p.rank for p in places.hosts.values() if p.rank is not None})
        captures, worlds = self._captures()
        distributed = {"rank": ranks[0]} if len(ranks) == 1 else {}
        distributed |= {"world_size": max(worlds)} if worlds else {}
        about: dict[str, object] = {
            HEADER: {
                "version": __version__,
                "what": "aligned timeline of all selected ranks; tracks of categories traceanalyzer.* are derived",
                "run": self._scope.runs[0],
                "selection": _said(self._scope.selection),
                "captures": captures,
                "clock": clock.about(places.members()),
                **places.about(),
            },
            "schemaVersion": 1,
            "displayTimeUnit": "ns",
            "baseTimeNanoseconds": 0 if utc is None else max(utc + clock.origin_ns, 0),
            "deviceProperties": places.properties(),
        }
        return about | ({"distributedInfo": distributed} if distributed else {})

    def _captures(self) -> tuple[list[dict[str, Any]], list[int]]:
        rows = self._scope.connection.execute(
            f"""SELECT capture, path, source, tool_version, rank, world_size FROM stored.captures
            WHERE capture IN {self._scope.numbers()} ORDER BY capture"""
        ).fetchall()
        about = [
            {"capture": c, "file": PurePath(path or "").name, "source": source, "tool_version": version, "rank": rank}
            for c, path, source, version, rank, _ in rows
        ]
        return about, [world for *_, world in rows if world is not None]


def _said(selection: Selection) -> dict[str, object]:
    """What was selected otherwise than by default; which lane gaps are of, and what aligns clocks, always."""
    usual = asdict(replace(Selection(), top=selection.top, lane="", align=""))
    chosen = {name: value for name, value in asdict(selection).items() if value != usual[name]}
    return {name: sorted(value) if isinstance(value, frozenset) else value for name, value in chosen.items()}
