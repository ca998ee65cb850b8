"""Plain `nvidia-smi`: the table of devices and processes for people."""

import re

from traceanalyzer.sources.nvidia_smi.cells import with_unit
from traceanalyzer.sources.nvidia_smi.host import LONGEST_LINE, Host
from traceanalyzer.sources.nvidia_smi.report_values import Place, add
from traceanalyzer.sources.telemetry import is_missing

VERSIONS = re.compile(
    r"\|\s*NVIDIA-SMI\s+\S+\s+(?:Driver Version|KMD Version): (\S+)(?:\s+CUDA (?:UMD )?Version: (\S+))?\s*\|"
)
DATE = re.compile(r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}\s*")
_DEVICE = re.compile(
    r"\|\s*(\d{1,4})\s+(\S.*?)(?:\s+(?:On|Off|N/A|WDDM|TCC|MCDM))?\s*\|"
    r"\s*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s+\S+\s*\|\s*(\S+)\s*\|"
)
_STATE = re.compile(
    r"\|\s*(\S+)\s+(\S+)\s+(P\d+|N/A)\s+(\S+)\s*/\s*(\S+)\s*\|\s*(\S+)\s*/\s*(\S+)\s*\|\s*(\S+)\s+(.+?)\s*\|"
)
_PROCESS = re.compile(r"\|\s*(\d{1,4})(?:\s+(\S+)\s+(\S+))??\s+(\d+)\s+(C\+G|C|G|M\+C)\s+(\S.*?)\s+(\d+MiB|N/A)\s*\|")
_FRAME = re.compile(r"[|+].*[|+]\s*")


class Overview:
    """One table, or several one after the other, as `-l` and `watch` print them."""

    is_table = False
    longest_line = LONGEST_LINE

    def __init__(self, host: Host) -> None:
        self._host = host
        self._place = Place(tick=host.next_tick())
        self._known = False
        self._processes = False

    def take(self, line: str, _cut: bool) -> bool:
        """Reads a line; false where it is none of a table."""
        if DATE.fullmatch(line):
            self._place = Place(t_ns=self._host.onward.instant("overview", self._host.clock.moment(line)))
            self._processes = False
            self._known = True
            return True
        if not _FRAME.fullmatch(line):
            return False
        if m := VERSIONS.fullmatch(line):
            if not self._known:
                self._place = Place(tick=self._host.next_tick())
            self._known = self._processes = False
            self._host.fact("driver_version", m[1])
            if m[2] and not is_missing(m[2]):
                self._host.fact("cuda_version", m[2])
        elif line.lstrip("| ").startswith(("Processes:", "MIG devices:")):
            self._processes = True
        elif self._processes:
            if m := _PROCESS.fullmatch(line):
                self._take_process(m)
        elif m := _DEVICE.fullmatch(line):
            self._place.device = self._host.device(int(m[1]), None, m[3])
            self._host.describe(self._place.device, None if m[2].endswith("...") else m[2])
            errors = with_unit(m[4])
            add(self._host, self._place, "Volatile Uncorr. ECC", None if errors is None else errors[0], None)
        elif self._place.device is not None and (m := _STATE.fullmatch(line)):
            self._take_state(m)
        return True

    def close(self) -> None:
        """Nothing is left."""

    def _take_state(self, m: re.Match[str]) -> None:
        named = zip(
            ("Fan", "Temp", "Perf", "Pwr:Usage", "Pwr:Cap", "Memory-Usage", "Memory-Total", "GPU-Util"),
            ("%", "C", None, "W", "W", "MiB", "MiB", "%"),
            m.groups(),
            strict=False,
        )
        for metric, unit, text in named:
            found = with_unit(text)
            add(self._host, self._place, metric, None if found is None else found[0], unit)
            if metric == "Memory-Total" and found is not None:
                self._host.describe(self._place.device, memory_mib=found[0])
        self._place.device = None

    def _take_process(self, m: re.Match[str]) -> None:
        device = self._host.device(int(m[1]))
        if device is None or len(m[4]) > 17:
            return
        found = with_unit(m[7])
        place = Place(device, self._place.t_ns, self._place.tick, m[6], int(m[4]))
        add(self._host, place, "GPU Memory", None if found is None else found[0], "MiB")


def open_overview(line: str, host: Host) -> Overview | None:
    """The table that a line begins, if it does: a date alone, or its first row."""
    if not (DATE.fullmatch(line) or VERSIONS.fullmatch(line)):
        return None
    overview = Overview(host)
    overview.take(line, False)
    return overview
