"""Reads what nvidia-smi printed: one view, or many one after the other in one file."""

from typing import Protocol

from traceanalyzer.errors import SourceError
from traceanalyzer.schema.kinds import Severity
from traceanalyzer.schema.sink import Sink
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.nvidia_smi.headless import open_headless_monitor
from traceanalyzer.sources.nvidia_smi.host import LONGEST_LINE, Host
from traceanalyzer.sources.nvidia_smi.listing import open_listing
from traceanalyzer.sources.nvidia_smi.monitor import open_monitor
from traceanalyzer.sources.nvidia_smi.overview import open_overview
from traceanalyzer.sources.nvidia_smi.query import open_nameless, open_query
from traceanalyzer.sources.nvidia_smi.report_text import open_text_report
from traceanalyzer.sources.nvidia_smi.report_xml import open_xml_report
from traceanalyzer.sources.nvidia_smi.superbench import open_superbench
from traceanalyzer.sources.nvidia_smi.topology import open_topology
from traceanalyzer.sources.text_lines import Lines


class View(Protocol):
    """One kind of output, read line by line.

    `is_table` says that lines which it does not take are torn rows, and not the end of it; no line of it has more
    characters than `longest_line`.
    """

    is_table: bool
    longest_line: int

    def take(self, line: str, cut: bool, /) -> bool:
        """Reads a line, or says that it is none of the view. `cut`: the file ends within the line."""

    def close(self) -> None:
        """Writes what is left."""


_OPEN_LONG = (open_query, open_xml_report, open_superbench)
OPENERS = (open_monitor, open_topology, open_text_report, open_overview, open_listing, *_OPEN_LONG)


def opened(line: str, host: Host) -> View | None:
    """The view that a line begins, if it does."""
    openers = OPENERS if len(line) <= LONGEST_LINE else _OPEN_LONG
    return next((view for view in (opener(line, host) for opener in openers) if view is not None), None)


class Reader:
    """Reads one file."""

    def __init__(self, file: TraceFile, sink: Sink) -> None:
        self._file, self._sink = file, sink
        self._host = Host(sink)
        self._view: View | None = None
        self._torn = self._other = 0

    def read(self) -> None:
        """Raises `SourceError` where nothing of the file can be used."""
        lines = Lines(self._file)
        for line in lines:
            self._take(line, lines.cut)
        self._close()
        if self._host.is_empty:
            raise SourceError(self._file.path, "output of nvidia-smi without any reading", "let it run for longer")
        self._host.finish()
        self._say(lines)

    def _take(self, line: str, cut: bool) -> None:
        view = self._view
        if not line.strip():
            return
        cut = cut and not line.endswith(" ")
        if view is not None and len(line) <= view.longest_line and view.take(line, cut):
            return
        found = opened(line, self._host)
        if found is None and view is None and not self._other:
            found = open_headless_monitor(line, self._host, cut) or open_nameless(line, self._host, cut)
        if found is not None:
            self._close()
            self._view = found
        elif view is not None and view.is_table and not line.startswith("#"):
            self._torn += 1
        else:
            self._close()
            self._other += 1

    def _close(self) -> None:
        if self._view is not None:
            self._view.close()
            self._view = None

    def _say(self, lines: Lines) -> None:
        note = self._sink.note
        if self._torn:
            note("torn_rows", "Rows that do not have the cells of their table were left out.", self._torn)
        if lines.too_long:
            note("line_too_long", "Lines of more than 16 MiB were left out.", lines.too_long)
        if self._other:
            text = "Lines that are no reading of nvidia-smi were left out."
            note("other_lines", text, self._other, Severity.INFO)
