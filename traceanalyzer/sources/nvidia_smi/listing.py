"""`nvidia-smi -L` and `nvidia-smi nvlink -s`, `-e`: the GPUs of a host, the links of each, and errors of these.

Form of the counters of errors (`Link 0: Replay Errors: 0`): NVIDIA, manual of nvidia-smi, "nvlink -e".
"""

import re

from traceanalyzer.sources.nvidia_smi.cells import with_unit
from traceanalyzer.sources.nvidia_smi.host import LONGEST_LINE, Host
from traceanalyzer.sources.telemetry import Sample

GPU = re.compile(r"GPU (\d{1,5}): (.+?) \(UUID: ([\w-]+)\)\s*")
_MIG = re.compile(r"\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: ([\w/-]+)\)\s*")
_COUNTER = re.compile(r"\s+Link (\d{1,3}): (?:Lane (\d{1,2}): )?([A-Za-z][\w ./()-]{0,60}): *(.+?)\s*")
_LINK = re.compile(r"\s+Link (\d{1,3}): (.+?)\s*")


class Listing:
    """One list, with what stands below each GPU."""

    is_table = False
    longest_line = LONGEST_LINE

    def __init__(self, host: Host) -> None:
        self._host = host
        self._device: int | None = None
        self._tick = host.next_tick()

    def take(self, line: str, cut: bool) -> bool:
        """Reads a line; false where it is none of the list."""
        if m := GPU.fullmatch(line):
            last, self._device = self._device, self._host.device(int(m[1]), m[3])
            if last is not None and self._device is not None and self._device <= last:
                self._tick = self._host.next_tick()
            self._host.describe(self._device, m[2])
            return True
        if m := _MIG.fullmatch(line):
            self._host.fact("mig_mode", "Enabled")
            return True
        if (m := _COUNTER.fullmatch(line)) and not cut:
            self._add(m[3], m[1] if m[2] is None else f"{m[1]} lane {m[2]}", m[4], None)
            return True
        if (m := _LINK.fullmatch(line)) and not cut:
            self._add("Link", m[1], m[2], "GB/s")
            return True
        return False

    def _add(self, metric: str, link: str, text: str, usual: str | None) -> None:
        found = with_unit(text)
        value, unit = (None, usual) if found is None else found
        self._host.samples.add(Sample("nvlink", metric, value, unit, self._device, f"link {link}", tick=self._tick))

    def close(self) -> None:
        """Nothing is left."""


def open_listing(line: str, host: Host) -> Listing | None:
    """The list that a line begins, if it does."""
    if not GPU.fullmatch(line):
        return None
    listing = Listing(host)
    listing.take(line, False)
    return listing
