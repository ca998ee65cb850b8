"""`nvidia-smi -q -x`: the full report as XML. No entity is expanded, and nothing outside of the file is read."""

from typing import Any
from xml.parsers import expat

from traceanalyzer.sources.nvidia_smi.host import Host
from traceanalyzer.sources.nvidia_smi.report_values import Place, take_value
from traceanalyzer.sources.text_lines import LONGEST_LINE as LONGEST_OF_ALL

_LONGEST_TEXT = 1 << 16
_DEEPEST = 64
_SKIPPED = {"supported_clocks", "accounted_processes", "supported_gpu_target_temp", "capabilities"}


class _ForbiddenError(Exception):
    """The document holds what no report does."""


class XmlReport:
    """One report, or several one after the other, as `-l` prints them."""

    is_table = False
    longest_line = LONGEST_OF_ALL

    def __init__(self, host: Host) -> None:
        self._host = host
        self._parser: Any = None
        self._damaged = False

    def take(self, line: str, cut: bool) -> bool:
        """Reads a line: every line of the file is one of XML."""
        if line.lstrip().startswith("<?xml"):
            self._finish()
            line = line.lstrip()
        if self._parser is None:
            if not line.strip():
                return True
            self._begin()
        self._parse(line if cut else line + "\n", False)
        return True

    def close(self) -> None:
        """The end of the file."""
        self._finish()

    def _begin(self) -> None:
        self._document = _Document(self._host)
        self._damaged = False
        parser = expat.ParserCreate("utf-8")
        parser.buffer_text = True
        parser.StartElementHandler = self._document.start
        parser.EndElementHandler = self._document.end
        parser.CharacterDataHandler = self._document.text
        parser.EntityDeclHandler = _refuse
        parser.ExternalEntityRefHandler = _refuse
        self._parser = parser

    def _finish(self) -> None:
        if self._parser is not None:
            self._parse("", True)
            self._parser = None

    def _parse(self, text: str, final: bool) -> None:
        if self._damaged:
            return
        try:
            self._parser.Parse(text.encode("utf-8", "replace"), final)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            self._damage(f"The XML ends early or is damaged ({reason}): what stands before it is read.")
        except _ForbiddenError:
            self._damage("The XML declares entities, which no report does: what stands behind them is not read.")

    def _damage(self, text: str) -> None:
        self._damaged = True
        self._host.sink.facts.whole = False
        self._host.sink.note("truncated", text)


def _refuse(*_arguments: object) -> int:
    raise _ForbiddenError


class _Document:
    """Takes the elements of one report."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._place = Place(tick=host.next_tick())
        self._path: list[str] = []
        self._text: list[str] = []
        self._length = 0
        self._leaf = False
        self._process: dict[str, str] = {}

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._path.append(name)
        if len(self._path) > _DEEPEST:
            raise _ForbiddenError
        self._text, self._length, self._leaf = [], 0, True
        if name == "gpu" and len(self._path) == 2:
            self._place.device = self._host.device(None, None, attributes.get("id"))
        elif name == "mig_device":
            self._place.instance = None
        elif name == "process_info":
            self._process = {}

    def text(self, text: str) -> None:
        if self._length < _LONGEST_TEXT:
            self._text.append(text)
            self._length += len(text)

    def end(self, name: str) -> None:
        path = self._path[1:]
        if self._leaf and path and not _SKIPPED.intersection(path):
            self._take(path, "".join(self._text).strip())
        elif name == "process_info":
            self._take_process()
        elif name == "mig_device":
            self._place.instance = None
        elif name == "gpu":
            self._place.device = None
        self._leaf = False
        self._path.pop()

    def _take(self, path: list[str], text: str) -> None:
        if path == ["timestamp"]:
            self._place.t_ns = self._host.onward.instant("report_xml", self._host.clock.moment(text))
            self._place.tick = self._place.tick if self._place.t_ns is None else None
        elif "process_info" in path:
            self._process[path[-1]] = text
        elif "mig_device" in path:
            if path[-2:] == ["mig_device", "index"]:
                self._place.instance = f"MIG {text}"
            elif self._place.instance is not None:
                take_value(self._host, self._place, ".".join(path[path.index("mig_device") + 1 :]), text)
        elif path[0] == "gpu":
            take_value(self._host, self._place, ".".join(path[1:]), text)
        else:
            take_value(self._host, self._place, ".".join(path), text)

    def _take_process(self) -> None:
        pid = self._process.get("pid", "")
        if pid.isascii() and pid.isdigit() and len(pid) < 18:
            place = Place(
                self._place.device, self._place.t_ns, self._place.tick, self._process.get("process_name"), int(pid)
            )
            take_value(self._host, place, "processes.used_memory", self._process.get("used_memory", "N/A"))


def open_xml_report(line: str, host: Host) -> XmlReport | None:
    """The report that a line begins, if it does."""
    if not line.lstrip().startswith(("<?xml", "<!DOCTYPE nvidia_smi_log", "<nvidia_smi_log")):
        return None
    report = XmlReport(host)
    report.take(line, False)
    return report
