"""Allocations and frees: `[memory]` instants -> `memory_events`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.schema.sink import Sink
from traceanalyzer.sources.torch_trace.columns import Identities, integers, narrow, unless, with_values
from traceanalyzer.sources.torch_trace.records import ABSENT, Event, MemoryArguments, arguments_of

_CPU = 0


def write_memory(sink: Sink, identities: Identities, events: list[Event], instants: NDArray[np.int64]) -> None:
    """Writes `[memory]` instants; those of host memory have no device."""
    arguments = arguments_of(events, MemoryArguments)
    processes = identities.numbers([event.pid for event in events])
    threads = identities.numbers([event.tid for event in events])
    kinds = integers([a.device_type for a in arguments])
    device = narrow(integers([a.device_id for a in arguments]))
    columns = {
        "process": np.ma.MaskedArray(processes, processes == ABSENT),
        "thread": np.ma.MaskedArray(threads, threads == ABSENT),
        "device": unless(device, (kinds.data == _CPU) | (device.data < 0)),
        "t_ns": instants,
        "bytes": integers([a.size for a in arguments]),
        "address": integers([_signed(a.address) for a in arguments]),
        "allocated_bytes": integers([a.total_allocated for a in arguments]),
        "reserved_bytes": integers([a.total_reserved for a in arguments]),
    }
    sink.write("memory_events", with_values(columns))


def _signed(address: Any) -> Any:
    """Addresses beyond the signed range wrap to negative numbers."""
    return address - (1 << 64) if isinstance(address, int) and address >= 1 << 63 else address
