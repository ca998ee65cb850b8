"""Allocations and frees: `[memory]` instants -> `memory_events`."""

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.schema.sink import Sink
from traceanalyzer.sources.torch_trace.columns import Identities, narrow, unless, with_values
from traceanalyzer.sources.torch_trace.records import ABSENT, MemoryArguments
from traceanalyzer.sources.torch_trace.rows import Rows

_CPU = 0


def write_memory(sink: Sink, identities: Identities, rows: Rows, instants: NDArray[np.int64]) -> None:
    """Writes `[memory]` instants; those of host memory have no device."""
    arguments = rows.arguments(MemoryArguments)
    processes, threads = rows.processes(identities), rows.threads(identities)
    kinds = arguments.integers("device_type")
    device = narrow(arguments.integers("device_id"))
    columns = {
        "process": np.ma.MaskedArray(processes, processes == ABSENT),
        "thread": np.ma.MaskedArray(threads, threads == ABSENT),
        "device": unless(device, (kinds.data == _CPU) | (device.data < 0)),
        "t_ns": instants,
        "bytes": arguments.integers("size"),
        "address": arguments.integers("address", wrap=True),
        "allocated_bytes": arguments.integers("total_allocated"),
        "reserved_bytes": arguments.integers("total_reserved"),
    }
    sink.write("memory_events", with_values(columns))
