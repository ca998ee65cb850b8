"""CPU samples with their call chains, and what the scheduler did with threads."""

from typing import Any

import numpy as np

from traceanalyzer.schema.kinds import SampleKind, ThreadState
from traceanalyzer.schema.sink import NO_TEXT
from traceanalyzer.sources.nsys_sqlite.call_chains import read_call_chains
from traceanalyzer.sources.nsys_sqlite.capture import Capture, masked
from traceanalyzer.sources.nsys_sqlite.database import NULL, Database, Integers

# ENUM_SAMPLING_THREAD_STATE; 0 says nothing
_STATES = {
    1: "Running",
    2: "Interruptible",
    3: "Uninterruptible",
    4: "Stopped",
    5: "Terminated",
    6: "Unscheduled",
    7: "Waiting",
    8: "OS runtime",
    9: "Initialized",
    10: "Transition",
}
_OFF_CPU = (2, 3, 4, 6, 7, 8)
# `threadBlock` would tell why in more detail, in words of QNX and Windows; on Linux it is null.


def read_cpu_samples(capture: Capture) -> None:
    """Write `samples` of COMPOSITE_EVENTS. A sample without a chain tells only that the thread ran."""
    chains = read_call_chains(capture, "SAMPLING_CALLCHAINS")
    for block in capture.database.blocks("COMPOSITE_EVENTS", ("id", "start", "cpu", "threadState", "globalTid")):
        keep = np.flatnonzero(block["start"] != NULL)
        state = block["threadState"][keep]
        states = np.full(len(keep), ThreadState.UNKNOWN, np.uint8)
        states[state == 1] = ThreadState.RUNNING
        states[np.isin(state, _OFF_CPU)] = ThreadState.BLOCKED
        capture.write(
            "samples",
            {
                **capture.threads(block["globalTid"][keep]),
                "kind": np.full(len(keep), SampleKind.NATIVE, np.uint8),
                "t_ns": block["start"][keep],
                "node_id": chains.nodes(block["id"][keep]),
                "cpu": masked(block["cpu"][keep]),
                "state": states,
            },
        )


def read_scheduling(capture: Capture) -> None:
    """Write `sched_slices` of SCHED_EVENTS: running from in to out, blocked from out to in.

    Events without their counterpart, at the edges of the capture or because some were lost, give no slice.
    """
    columns = ("globalTid", "start", "isSchedIn", "cpu", "threadState")
    codes = _reason_codes(capture)
    order = "" if _in_time_order(capture.database) else '"globalTid", "start"'
    carried: dict[str, Integers] = {name: np.empty(0, np.int64) for name in columns}
    unpaired = 0
    for block in capture.database.blocks("SCHED_EVENTS", columns, order=order):
        sound = (block["globalTid"] != NULL) & (block["start"] != NULL)
        # The last event of each thread before this block may be the first half of a pair.
        rows = {name: np.concatenate([carried[name], block[name][sound]]) for name in columns}
        rows = _by_thread(rows)
        unpaired += _write_slices(capture, rows, codes)
        last = np.append(rows["globalTid"][1:] != rows["globalTid"][:-1], True)[: len(rows["globalTid"])]
        carried = {name: values[last] for name, values in rows.items()}
    capture.note(
        "scheduling_events_unpaired",
        "Some threads were put on a CPU, or taken off it, twice in a row: scheduling events are missing between.",
        unpaired,
    )


def _by_thread(rows: dict[str, Integers]) -> dict[str, Integers]:
    order = np.argsort(rows["globalTid"], kind="stable")
    return {name: values[order] for name, values in rows.items()}


def _in_time_order(database: Database) -> bool:
    """Whether the events of each thread stand in the order of time, as nsys writes them."""
    latest = {name: np.empty(0, np.int64) for name in ("globalTid", "start")}
    for block in database.blocks("SCHED_EVENTS", tuple(latest)):
        rows = _by_thread({name: np.concatenate([latest[name], block[name]]) for name in latest})
        same = rows["globalTid"][1:] == rows["globalTid"][:-1]
        if (same & (rows["start"][1:] < rows["start"][:-1])).any():
            return False
        latest = {name: values[np.append(~same, True)] for name, values in rows.items()}
    return True


def _write_slices(capture: Capture, rows: dict[str, Integers], reasons: Any) -> int:
    entered = rows["isSchedIn"] == 1
    same = rows["globalTid"][:-1] == rows["globalTid"][1:]
    pairs = np.flatnonzero(same & (entered[:-1] != entered[1:]))
    running = entered[:-1][pairs]
    state = rows["threadState"][:-1][pairs]
    reason = reasons[np.where((state > 0) & (state < len(reasons)) & ~running, state, 0)]
    capture.write(
        "sched_slices",
        {
            **capture.threads(rows["globalTid"][pairs]),
            "cpu": masked(rows["cpu"][pairs]),
            "state": np.where(running, ThreadState.RUNNING, ThreadState.BLOCKED).astype(np.uint8),
            "start_ns": rows["start"][pairs],
            "end_ns": rows["start"][pairs + 1],
            "reason": reason,
        },
    )
    return int((same & (entered[:-1] == entered[1:])).sum())


def _reason_codes(capture: Capture) -> Any:
    """Codes of the names of thread states by number; the file's own names where it has them."""
    names = _STATES | {
        number: label
        for number, label in capture.database.rows("ENUM_SAMPLING_THREAD_STATE", "id", "label")
        if isinstance(number, int) and 0 < number < 64 and isinstance(label, str)
    }
    out = np.full(max(names) + 1, NO_TEXT, np.int32)
    if capture.database.has("SCHED_EVENTS", "threadState"):
        for number, name in names.items():
            out[number] = capture.names.code(name)
    return out
