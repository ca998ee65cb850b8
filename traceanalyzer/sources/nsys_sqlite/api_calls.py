"""Calls of the CUDA runtime and driver, with the call chains and Python back traces that were taken in them."""

import numpy as np

from traceanalyzer.schema.kinds import EventKind
from traceanalyzer.schema.sink import NO_TEXT
from traceanalyzer.sources.nsys_sqlite.call_chains import NO_NODE, read_call_chains
from traceanalyzer.sources.nsys_sqlite.capture import Capture, distinct, positive
from traceanalyzer.sources.nsys_sqlite.database import NULL, Integers

RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
# ENUM_NSYS_EVENT_CLASS; 67 is a second row of a call for which a call chain was taken, around the first.
_CLASSES = {0: "cuda_runtime", 1: "cuda_driver", 67: "cuda_backtrace"}


class Backtraces:
    """Python back traces by thread and instant, to be joined to the API calls in which they were taken.

    A trace is taken where its call begins: in captures of nsys 2025.3 every mark has the very start time of one call
    (of event class 67) on its thread. So a trace belongs to the call that starts at it, else to one that it lies in.
    """

    def __init__(self) -> None:
        self._parts: list[tuple[Integers, Integers, Integers]] = []
        self._threads: dict[int, tuple[Integers, Integers]] | None = None

    def add(self, global_tids: Integers, instants: Integers, nodes: Integers) -> None:
        """Remember some traces."""
        self._parts.append((global_tids, instants, nodes))

    def nodes(self, global_tids: Integers, start: Integers, end: Integers) -> Integers:
        """Node of the trace of each call; `NO_NODE` without one."""
        out = np.full(len(start), NO_NODE, np.int64)
        for thread, (instants, nodes) in self._by_thread().items():
            rows = np.flatnonzero(global_tids == thread)
            if not len(rows):
                continue
            at = np.searchsorted(instants, start[rows])
            near = np.minimum(at, len(instants) - 1)
            inside = (at < len(instants)) & (instants[near] <= end[rows])
            exact = inside & (instants[near] == start[rows])
            # Calls that merely contain a trace get it only if no call of the block starts with it.
            taken = np.isin(near, near[exact])
            out[rows] = np.where(exact | (inside & ~taken), nodes[near], NO_NODE)
        return out

    def _by_thread(self) -> dict[int, tuple[Integers, Integers]]:
        if self._threads is None:
            self._threads = {}
            if self._parts:
                tids, instants, nodes = (np.concatenate(column) for column in zip(*self._parts, strict=True))
                for thread in distinct(tids):
                    rows = np.flatnonzero(tids == thread)
                    rows = rows[np.argsort(instants[rows], kind="stable")]
                    self._threads[thread] = (instants[rows], nodes[rows])
        return self._threads


def read_api_calls(capture: Capture, backtraces: Backtraces) -> None:
    """Write the API calls; where a call has both, the Python back trace stands for the native one."""
    chains = read_call_chains(capture, "CUDA_CALLCHAINS")
    before = capture.events
    domains = {number: capture.names.code(text) for number, text in _CLASSES.items()}
    columns = ("start", "end", "eventClass", "globalTid", "correlationId", "nameId", "callchainId")
    for block in capture.database.blocks(RUNTIME, columns):
        start, end = block["start"], block["end"]
        sound = (start != NULL) & (end != NULL)
        capture.note(
            "calls_without_time", "Some API calls have no start or no end; they were left out.", int((~sound).sum())
        )
        take = slice(None) if sound.all() else np.flatnonzero(sound)
        start, end, tids = start[take], end[take], block["globalTid"][take]
        node = backtraces.nodes(tids, start, end)
        if (block["callchainId"] != NULL).any():
            node = np.where(node == NO_NODE, chains.nodes(block["callchainId"][take]), node)
        domain = np.full(len(start), NO_TEXT, np.int32)
        for number, code in domains.items():
            domain[block["eventClass"][take] == number] = code
        capture.write_events(
            EventKind.API_CALL,
            "API calls",
            {
                **capture.threads(tids),
                "name": capture.names.codes(block["nameId"][take]),
                "domain": domain,
                "start_ns": start,
                "end_ns": end,
                "correlation_id": positive(block["correlationId"][take]),
                "backtrace_node_id": node,
            },
        )
    if not capture.operations:
        capture.note(
            "no_device_operations",
            "The file holds API calls but no operation on a device: the device's records are missing or were lost.",
            capture.events - before,
        )
