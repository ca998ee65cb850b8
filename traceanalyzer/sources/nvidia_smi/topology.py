"""`nvidia-smi topo -m`: how GPUs and network cards are connected, into the table `topology`."""

import re

from traceanalyzer.sources.nvidia_smi.host import LONGEST_LINE, Host
from traceanalyzer.sources.telemetry import is_missing, without_escapes

_PLACE = re.compile(r"(?:GPU|NIC)\d+|(?:mlx|bnxt|irdma|roce|ib|hfi|efa|cxgb|qed|hns|ens|eth)\w*")
_OTHER_NIC = re.compile(r"[a-z]\w*")
_LONGEST_HEADER = 1 << 16
_LINK = re.compile(r"X|SYS|NODE|PHB|PXB|PIX|PSB|NV\d+|C2C|N/A|-")
_NIC_NAME = re.compile(r"\s*(NIC\d+)\s*:\s*(\S+)\s*")
_LEGEND = re.compile(r"\s*(?:(?:NIC )?Legend:|(?:X|SYS|NODE|PHB|PXB|PIX|PSB|NV#|C2C)\s+=.*)\s*")
_ATTRIBUTES = {"CPU Affinity": "cpu_affinity", "NUMA Affinity": "numa_affinity", "GPU NUMA ID": "numa_node"}


class Topology:
    """One matrix with its legend."""

    is_table = False
    longest_line = LONGEST_LINE

    def __init__(self, host: Host, header: list[str]) -> None:
        self._host = host
        self._ends = [name for name in header if name not in _ATTRIBUTES]
        self._attributes = [name for name in header if name in _ATTRIBUTES]
        self._rows = 0
        host.fact("gpu_count", sum(name.startswith("GPU") for name in self._ends))

    def take(self, line: str, cut: bool) -> bool:
        """Reads a line; false where it is none of the matrix or its legend."""
        line = without_escapes(line)
        if m := _NIC_NAME.fullmatch(line):
            if not cut:
                self._host.samples.place(m[1], "name", m[2])
            return True
        if _LEGEND.fullmatch(line):
            return True
        cells = _cells(line)
        if len(cells) < 2 or not _PLACE.fullmatch(cells[0]) or cells[0] not in self._ends:
            return False
        if cut and cells[-1] != "X":
            del cells[-1]
            self._host.sink.note("last_value_cut", "The last line has no end: its last cell is left out.")
        self._take_row(cells[0], cells[1:])
        return True

    def _take_row(self, place: str, cells: list[str]) -> None:
        self._rows += 1
        if m := re.fullmatch(r"GPU(\d{1,5})", place):
            self._host.device(int(m[1]))
        links, rest = cells[: len(self._ends)], cells[len(self._ends) :]
        self._host.said += 1
        for other, link in zip(self._ends, links, strict=False):
            if other != place and link and not is_missing(link):
                if not _LINK.fullmatch(link):
                    self._host.sink.note("unknown_link", "Links of a kind that is not known are stored as printed.")
                self._host.samples.place(place, "link", link, other)
        # Newer drivers put an empty cell before the last one.
        if len(rest) > len(self._attributes):
            rest = [cell for cell in rest if cell]
        for attribute, value in zip(self._attributes, rest, strict=False):
            if value and not is_missing(value):
                self._host.samples.place(place, _ATTRIBUTES[attribute], value)

    def close(self) -> None:
        """Says so where rows are lost."""
        if self._rows < len(self._ends):
            self._host.sink.note("topology_cut", "The matrix of connections has fewer rows than columns.")


def _cells(line: str) -> list[str]:
    if "\t" in line:
        return [cell.strip() for cell in line.rstrip("\r\n").split("\t")]
    return re.split(r"\s{2,}", line.strip())


def open_topology(line: str, host: Host) -> Topology | None:
    """The matrix that a line heads, if it does."""
    header = header_of(line)
    return None if header is None else Topology(host, header)


def header_of(line: str) -> list[str] | None:
    """The names of a line that heads a matrix."""
    line = without_escapes(line)
    if len(line) > _LONGEST_HEADER or not line.lstrip().startswith("GPU"):
        return None
    header = [cell for cell in _cells(line) if cell]
    plain = all(name in _ATTRIBUTES or _PLACE.fullmatch(name) or _OTHER_NIC.fullmatch(name) for name in header)
    return header if plain and header[0] not in _ATTRIBUTES and "X" not in header else None
