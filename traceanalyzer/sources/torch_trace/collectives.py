"""What record_param_comms says of collectives, on operators and on the kernels that they launched -> `collectives`."""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.schema.batches import HeldBatches
from traceanalyzer.schema.sink import NO_TEXT, Sink, Values
from traceanalyzer.sources.torch_trace.columns import integers, narrow, with_values
from traceanalyzer.sources.torch_trace.records import ABSENT, CollectiveArguments
from traceanalyzer.sources.torch_trace.rows import Rows


class Collectives:
    """Collects collectives; also the ranks that they say their writer has."""

    def __init__(self, sink: Sink, path: object) -> None:
        self.ranks: set[int] = set()
        self._sink = sink
        self._held = HeldBatches(path)

    def on_host(self, rows: Rows, event_ids: NDArray[np.int64], processes: NDArray[np.int64]) -> None:
        """Takes operators that carry a collective, with their numbers in `cpu_events`."""
        columns = self._columns(rows.records(CollectiveArguments))
        self._sink.write("collectives", columns | {"event_id": event_ids, "process": processes})

    def on_device(self, rows: Rows, op_ids: NDArray[np.int64]) -> None:
        """Takes operations that carry a collective, with their numbers in `gpu_ops`."""
        self._held.add(self._columns(rows.records(CollectiveArguments)) | {"op_id": op_ids})

    def write(self, process: int | None) -> None:
        """Writes what operations carried, with the process that launched them where it is the only one."""
        for columns in self._held.take():
            if process is not None:
                columns["process"] = np.full(len(columns["op_id"]), process, np.int64)
            self._sink.write("collectives", columns)

    def _columns(self, rows: list[CollectiveArguments]) -> dict[str, Values]:
        self.ranks.update(a.rank for a in rows if isinstance(a.rank, int) and a.rank >= 0)
        peers = [_peer(a) for a in rows]
        columns: dict[str, Values] = {
            "group_name": self._codes([a.group_name for a in rows]),
            "group_description": self._codes([a.group_description for a in rows]),
            "group_ranks": self._codes([a.group_ranks for a in rows]),
            "group_size": narrow(integers([a.group_size for a in rows])),
            "kind": self._codes([a.collective for a in rows]),
            "dtype": self._codes([a.dtype for a in rows]),
            "elements_in": integers([a.elements_in for a in rows]),
            "elements_out": integers([a.elements_out for a in rows]),
            "sequence": integers([a.sequence for a in rows]),
            "communicator": self._codes([a.communicator for a in rows]),
            "peer": narrow(integers(peers)),
            "root": narrow(integers([a.root_rank for a in rows])),
        }
        return with_values(columns)

    def _codes(self, values: list[Any]) -> NDArray[np.int32]:
        look = self._sink.texts.__getitem__
        return np.array([NO_TEXT if v is None or v == "" else look(_plain(v)) for v in values], np.int32)


def _plain(value: Any) -> str:
    return json.dumps(value) if isinstance(value, list) else str(value)


def _peer(arguments: CollectiveArguments) -> Any:
    """The other rank: the destination of a send, the source of a receive."""
    kind = (arguments.collective or "").lower()
    if "recv" in kind or "receive" in kind:
        return arguments.source_rank
    return arguments.destination_rank if arguments.destination_rank != ABSENT else arguments.source_rank
