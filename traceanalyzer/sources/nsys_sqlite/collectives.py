"""NCCL calls as NVTX ranges of the domain NCCL: collectives as one rank issued them, communicators and ranks.

A range is the time in which the host enqueued the call, not the time of the kernel.
"""

import re
from typing import Any

import numpy as np

from traceanalyzer.schema.sink import NO_TEXT
from traceanalyzer.sources.nsys_sqlite.capture import Capture
from traceanalyzer.sources.nsys_sqlite.database import NULL, Integers

_DOMAIN = "NCCL"
_COMMUNICATION = re.compile(
    r"p?nccl(AllReduce|AllGather|ReduceScatter|Broadcast|Bcast|Reduce|All[tT]oAllv?|AlltoAll|Gather|Scatter|Send|Recv)(?![a-z])"
)
_NCCL_NAME = re.compile(r"p?nccl[A-Z]")
_COMMUNICATOR = ("NCCL communicator ID", "NCCL communicator hash")
_SIZE, _REDUCTION, _PEER, _ROOT = "Message size [bytes]", "Reduction operation", "Peer rank", "Root"
_RANKS, _RANK = "No. of ranks", "Rank"
_INTEGERS = ("bytes", "peer", "root", "group_size")


class Collectives:
    """Collects the calls while the ranges are read and writes them at the end: a communicator's size may come late."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._names: dict[int, str] = {}  # codes of names that NCCL gives
        self._checked = 0  # texts that were looked at for such names
        self._rows = _empty()
        self.sizes: dict[str, int] = {}  # communicator -> number of ranks
        self.ranks: dict[int, set[tuple[int, int]]] = {}  # process -> (rank, number of ranks) of its communicators
        self.processes: set[int] = set()

    def add(
        self,
        first_event: int,
        positions: Integers,
        *,
        names: Any,
        domains: Any,
        domain_texts: dict[int, str],
        processes: Integers,
        payloads: dict[int, dict[str, Any]],
    ) -> None:
        """Take the NCCL calls among the events that were just written.

        Where the file lacks the row that names the domain (cut files), the names of the calls tell.
        """
        for code, text in enumerate(self._capture.sink.texts.all[self._checked :], self._checked):
            if text.startswith(("nccl", "pnccl")) and _NCCL_NAME.match(text):
                self._names[code] = text
        self._checked = len(self._capture.sink.texts.all)
        nccl = [code for code, text in domain_texts.items() if text == _DOMAIN]
        positions = positions[
            np.isin(names[positions], list(self._names)) & np.isin(domains[positions], [*nccl, NO_TEXT])
        ]
        for position in positions.tolist():
            fields = payloads.get(position, {})
            process = int(processes[position])
            self.processes.add(process)
            communicator = _communicator(fields)
            kind = self._names[int(names[position])]
            if _COMMUNICATION.match(kind):
                self._append(first_event + position, process, kind, communicator, fields)
            elif _RANK in fields and isinstance(fields.get(_RANKS), int):
                self.ranks.setdefault(process, set()).add((fields[_RANK], fields[_RANKS]))
                if communicator is not None:
                    self.sizes[communicator] = fields[_RANKS]

    def _append(self, event: int, process: int, kind: str, communicator: str | None, fields: dict[str, Any]) -> None:
        rows = self._rows
        rows["event_id"].append(event)
        rows["process"].append(process)
        rows["kind"].append(kind)
        rows["communicator"].append(communicator)
        rows["bytes"].append(fields.get(_SIZE))
        rows["peer"].append(fields.get(_PEER))
        rows["root"].append(fields.get(_ROOT))
        rows["reduction"].append(fields.get(_REDUCTION))

    def write(self) -> None:
        """Write the table `collectives`."""
        rows = self._rows
        if not rows["event_id"]:
            return
        rows["group_size"] = [self.sizes.get(c) if c is not None else None for c in rows["communicator"]]
        codes = self._capture.sink.texts.codes
        communicator = codes(rows["communicator"])
        process = np.array(rows["process"], np.int64)
        self._capture.write(
            "collectives",
            {
                "process": np.ma.masked_array(process, process == NULL),
                "event_id": np.array(rows["event_id"], np.int64),
                "kind": codes(rows["kind"]),
                "group_name": communicator,
                "communicator": communicator,
                "reduction": codes(None if r is None else str(r) for r in rows["reduction"]),
                **{name: _integers(rows[name]) for name in _INTEGERS},
            },
        )
        self._rows = _empty()


def _empty() -> dict[str, list[Any]]:
    return {name: [] for name in ("event_id", "process", "kind", "communicator", "reduction", *_INTEGERS)}


def _communicator(fields: dict[str, Any]) -> str | None:
    found = next((fields[name] for name in _COMMUNICATOR if name in fields), None)
    # JSON writers may have made a signed number of the 64 bits.
    return None if found is None else str(found & (2**64 - 1) if isinstance(found, int) else found)


def _integers(values: list[Any]) -> Any:
    good = [isinstance(v, int) and -(2**63) <= v < 2**63 for v in values]
    numbers = [v if g else 0 for v, g in zip(values, good, strict=True)]
    return np.ma.masked_array(np.array(numbers, np.int64), [not g for g in good])
