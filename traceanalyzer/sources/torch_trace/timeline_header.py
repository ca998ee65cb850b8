"""The header of an aligned timeline, which says of which rank each process is and which process launched operations."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.schema.timeline_file import HEADER
from traceanalyzer.sources.torch_trace.columns import OWN_NUMBERS
from traceanalyzer.sources.torch_trace.records import ABSENT, whole_number

_LARGEST_RANK = 2**31 - 1


class TimelineHeader:
    """Rank (None: not known) and name of each process; process and device of each row of operations; by their pids."""

    def __init__(self, header: dict[str, Any]) -> None:
        self.ranks: dict[int, int | None] = {}
        self.names: dict[int, str] = {}
        self.devices: dict[int, int] = {}
        self._launched_by: dict[int, int] = {}
        self._lanes_apart = _number(header, "lanes_apart") or 0
        for entry in _objects(header, "processes"):
            pid, rank, name = _number(entry, "pid"), _number(entry, "rank"), entry.get("name")
            if pid is not None:
                self.ranks[pid] = rank if rank is not None and 0 <= rank <= _LARGEST_RANK else None
                if isinstance(name, str) and name:
                    self.names[pid] = name
        for entry in _objects(header, "devices"):
            pid, process, device = (_number(entry, key) for key in ("pid", "process", "device"))
            if pid is not None and process in self.ranks:
                self._launched_by[pid] = process
            if pid is not None and device is not None and device >= 0:
                self.devices[pid] = device

    @classmethod
    def of(cls, metadata: dict[str, Any]) -> "TimelineHeader | None":
        """The header among what stands before the events; None where the file is no aligned timeline."""
        header = metadata.get(HEADER)
        return cls(header) if isinstance(header, dict) and _objects(header, "processes") else None

    @property
    def several_ranks(self) -> bool:
        """Whether its processes are of more than one rank, or of ranks that are not known."""
        return None in self.ranks.values() or len(set(self.ranks.values())) > 1

    @property
    def stated(self) -> frozenset[int]:
        """The ranks that it names."""
        return frozenset(rank for rank in self.ranks.values() if rank is not None)

    @property
    def rank(self) -> int | None:
        """The rank of all processes, where it is one."""
        return None if self.several_ranks else next(iter(self.ranks.values()), None)

    def launched_by(self, pids: NDArray[np.int64]) -> np.ma.MaskedArray[Any, np.dtype[np.int64]]:
        """The process that launched the operations on rows of some pids; null where the header does not say."""
        return _looked_up(self._launched_by, pids)

    def processes_of(self, pids: NDArray[np.int64]) -> np.ma.MaskedArray[Any, np.dtype[np.int64]]:
        """The process of what stands on rows of devices, or of processes themselves; null where none is known."""
        return _looked_up(self._launched_by | {pid: pid for pid in self.ranks}, pids)

    def threads(self, tids: NDArray[np.int64]) -> NDArray[np.int64]:
        """The threads of some rows: those below the row of a thread are its own."""
        return np.where(tids >= 0, tids % self._lanes_apart, tids) if self._lanes_apart > 0 else tids

    def recorded(self, pids: NDArray[np.int64]) -> np.ma.MaskedArray[Any, np.dtype[np.int64]]:
        """Those of some pids that are processes which were recorded; null for others."""
        return np.ma.MaskedArray(pids, ~np.isin(pids, list(self.ranks)))


def _looked_up(known: dict[int, int], pids: NDArray[np.int64]) -> np.ma.MaskedArray[Any, np.dtype[np.int64]]:
    distinct, inverse = np.unique(pids, return_inverse=True)
    found = np.array([known.get(pid, ABSENT) for pid in distinct.tolist()], np.int64)
    values = found[inverse.reshape(-1)]
    return np.ma.MaskedArray(values, values == ABSENT)


def _objects(header: dict[str, Any], key: str) -> list[dict[str, Any]]:
    entries = header.get(key)
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _number(entry: dict[str, Any], key: str) -> int | None:
    number = whole_number(entry.get(key))
    return number if number is not None and OWN_NUMBERS < number < 1 << 63 else None
