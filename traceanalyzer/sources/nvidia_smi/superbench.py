"""The monitor of SuperBench: a JSON object a line with readings of NVML and of the host."""

import re

import msgspec

from traceanalyzer.sources.nvidia_smi.host import Host
from traceanalyzer.sources.telemetry import Sample
from traceanalyzer.sources.text_lines import LONGEST_LINE as LONGEST_OF_ALL

SOURCE = "superbench_monitor"
START = re.compile(r'\{"time": *"[^"]{1,40}",.*"gpu_\w+:\d+":')
_GPU = re.compile(r"(gpu_\w+):(\d{1,4})")
_PORT = re.compile(r"(\w+?)_((?:receive|transmit)_bw)")
_UNITS = {"gpu_usage": "%", "gpu_temperature": "C", "gpu_power": "W", "gpu_power_limit": "W", "cpu_usage": "%"}
_BYTES = re.compile(r"gpu_mem_(?:used|total)")


class Monitor:
    """A file of such lines."""

    is_table = True
    longest_line = LONGEST_OF_ALL

    def __init__(self, host: Host) -> None:
        self._host = host

    def take(self, line: str, _cut: bool) -> bool:
        """Reads a line; false where it is no whole object."""
        try:
            row = msgspec.json.decode(line.encode())
        except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
            return False
        if not isinstance(row, dict):
            return False
        instant = self._host.onward.instant("superbench", self._host.clock.moment(str(row.get("time"))))
        for name, value in row.items():
            if name != "time" and (value is None or (isinstance(value, int | float) and not isinstance(value, bool))):
                self._add(str(name), value, instant)
        return True

    def close(self) -> None:
        """Nothing is left."""

    def _add(self, name: str, value: float | None, instant: int | None) -> None:
        device: int | None = None
        instance: str | None = None
        if m := _GPU.fullmatch(name):
            name, device = m[1], self._host.device(int(m[2]))
        elif m := _PORT.fullmatch(name):
            name, instance = m[2], m[1]
        unit = "bytes" if _BYTES.fullmatch(name) else _UNITS.get(name)
        try:
            number = None if value is None else float(value)
        except OverflowError:
            number = None
        self._host.samples.add(Sample(SOURCE, name, number, unit, device, instance, t_ns=instant))


def open_superbench(line: str, host: Host) -> Monitor | None:
    """The file that a line begins, if it does."""
    if not START.match(line):
        return None
    monitor = Monitor(host)
    return monitor if monitor.take(line, False) else None
