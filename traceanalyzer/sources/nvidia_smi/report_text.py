"""`nvidia-smi -q`: the full report as indented text."""

import re

from traceanalyzer.sources.nvidia_smi.host import LONGEST_LINE, Host
from traceanalyzer.sources.nvidia_smi.report_values import Place, take_value

START = re.compile(r"=+\s*NVSMI LOG\s*=+\s*")
_GPU = re.compile(r"GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s*")
_VALUE = re.compile(r"(\s*)(\S.*?)\s*: ?(.*)")
_SECTION = re.compile(r"(\s+)(\S.*?)\s*")
_DEEPEST = 20


class TextReport:
    """One report, or several one after the other, as `-l` prints them."""

    is_table = False
    longest_line = LONGEST_LINE

    def __init__(self, host: Host) -> None:
        self._host = host
        self._place = Place(tick=host.next_tick())
        self._open: list[tuple[int, str]] = []

    def take(self, line: str, cut: bool) -> bool:
        """Reads a line; false where it is none of a report."""
        if START.fullmatch(line):
            self._begin()
            return True
        if m := _GPU.fullmatch(line):
            self._open = []
            self._place.instance = self._place.process = None
            self._place.device = self._host.device(None, None, m[1])
            return True
        if line.startswith(("#", "|", "+")):
            return False
        if m := _VALUE.fullmatch(line):
            if not cut:
                self._take_value(len(m[1].expandtabs(8)), m[2], m[3].strip())
            return True
        if self._place.device is not None and (m := _SECTION.fullmatch(line)):
            self._enter(len(m[1].expandtabs(8)), m[2])
            return True
        return False

    def close(self) -> None:
        """Nothing is left."""

    def _begin(self) -> None:
        self._place = Place(tick=self._host.next_tick())
        self._open = []

    def _leave(self, indent: int) -> None:
        while self._open and self._open[-1][0] >= indent:
            self._open.pop()
        if not any(name == "MIG Device" for _, name in self._open):
            self._place.instance = None
        if not any(name == "Processes" for _, name in self._open):
            self._place.process = None

    def _enter(self, indent: int, name: str) -> None:
        self._leave(indent)
        if len(self._open) < _DEEPEST:
            self._open.append((indent, name))

    def _take_value(self, indent: int, name: str, text: str) -> None:
        self._leave(indent)
        sections = [section for _, section in self._open]
        if not sections and name == "Timestamp":
            self._place.t_ns = self._host.onward.instant("report_text", self._host.clock.moment(text))
            self._place.tick = self._place.tick if self._place.t_ns is None else None
        elif "Processes" in sections:
            self._take_process(indent, name, text)
        elif sections[:1] == ["MIG Device"]:
            if name == "Index" and len(sections) == 1:
                self._place.instance = f"MIG {text}"
            elif self._place.instance is not None:
                take_value(self._host, self._place, ".".join([*sections[1:], name]), text)
        else:
            take_value(self._host, self._place, ".".join([*sections, name]), text)

    def _take_process(self, indent: int, name: str, text: str) -> None:
        """Values of a process stand below its id."""
        if name == "Process ID" and text.isdigit() and len(text) < 18:
            self._enter(indent, name)
            self._place.process, self._place.instance = int(text), None
        elif self._place.process is None:
            return
        elif name == "Name":
            self._place.instance = text
        elif name == "Used GPU Memory":
            take_value(self._host, self._place, "Processes.Used GPU Memory", text)
            self._place.instance = None


def open_text_report(line: str, host: Host) -> TextReport | None:
    """The report that a line heads, if it does."""
    return TextReport(host) if START.fullmatch(line) else None
