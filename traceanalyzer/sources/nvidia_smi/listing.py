"""`nvidia-smi -L` and `nvidia-smi nvlink -s`: the GPUs of a host, and the links of each."""

import re

from traceanalyzer.sources.nvidia_smi.cells import with_unit
from traceanalyzer.sources.nvidia_smi.host import LONGEST_LINE, Host
from traceanalyzer.sources.telemetry import Sample

GPU = re.compile(r"GPU (\d{1,5}): (.+?) \(UUID: ([\w-]+)\)\s*")
_MIG = re.compile(r"\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: ([\w/-]+)\)\s*")
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
            self._device = self._host.device(int(m[1]), m[3])
            self._host.describe(self._device, m[2])
            return True
        if m := _MIG.fullmatch(line):
            self._host.fact("mig_mode", "Enabled")
            return True
        if (m := _LINK.fullmatch(line)) and not cut:
            found = with_unit(m[2])
            value, unit = (None, "GB/s") if found is None else found
            self._host.samples.add(Sample("nvlink", "Link", value, unit, self._device, f"link {m[1]}", tick=self._tick))
            return True
        return False

    def close(self) -> None:
        """Nothing is left."""


def open_listing(line: str, host: Host) -> Listing | None:
    """The list that a line begins, if it does."""
    if not GPU.fullmatch(line):
        return None
    listing = Listing(host)
    listing.take(line, False)
    return listing
