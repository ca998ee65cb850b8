"""Allocated and reserved memory of one device over time, and which allocation each free ends."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.numeric.grouping import groups
from traceanalyzer.passes.scope import Scope
from traceanalyzer.store.database import first_row

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
NONE = -1
NEVER = np.iinfo(np.int64).max
_LARGEST = 1 << 50
"""No device has, and no allocator tells, so many bytes: what claims to is damage, and would not add up in 64 bits."""


@dataclass(frozen=True, slots=True)
class MemoryEvents:
    """Allocations (positive) and frees of a device in the order in which they were made.

    `address` is of no meaning where not `has_address`. `total` and `reserved` are what the allocator of the process
    told after each, known where the flags say so. `n_odd` counts events of impossible sizes, which are left out.
    """

    t: Ints
    process: Ints
    thread: Ints
    bytes: Ints
    address: Ints
    has_address: Flags
    total: Ints
    has_total: Flags
    reserved: Ints
    has_reserved: Flags
    n_odd: int = field(default=0, kw_only=True)

    def __len__(self) -> int:
        return len(self.t)


@dataclass(frozen=True, slots=True)
class Levels:
    """A level before the first event (`base`) and after each. `exact` says whether it is known and not least."""

    base: int
    after: Ints
    exact: bool


def load_events(scope: Scope, capture: int, device: int) -> MemoryEvents:
    """Allocations and frees of a device, by time, then as they stand in the file; impossible sizes are left out."""
    mine = "FROM stored.memory_events WHERE capture = ? AND device = ? AND t_ns IS NOT NULL"
    possible = f"""(bytes BETWEEN -{_LARGEST} AND {_LARGEST} AND coalesce(allocated_bytes, 0) BETWEEN 0 AND {_LARGEST}
        AND coalesce(reserved_bytes, 0) BETWEEN 0 AND {_LARGEST})"""
    got = scope.connection.execute(
        f"""SELECT t_ns, coalesce(process, {NONE}) AS process, coalesce(thread, {NONE}) AS thread,
            bytes, coalesce(address, 0) AS address, address IS NOT NULL AS has_address,
            coalesce(allocated_bytes, 0) AS total, allocated_bytes IS NOT NULL AS has_total,
            coalesce(reserved_bytes, 0) AS reserved, reserved_bytes IS NOT NULL AS has_reserved
        {mine} AND {possible} ORDER BY t_ns, rowid""",
        [capture, device],
    ).fetchnumpy()
    odd = first_row(scope.connection.execute(f"SELECT count(*) {mine} AND {possible} IS NOT TRUE", [capture, device]))
    names = ("process", "thread", "bytes", "address", "has_address", "total", "has_total", "reserved", "has_reserved")
    columns = (np.asarray(got[name]) for name in names)
    return MemoryEvents(np.asarray(got["t_ns"], np.int64), *columns, n_odd=odd[0] if odd else 0)


def allocated(events: MemoryEvents) -> Levels:
    """Memory allocated on the device: by the totals that were recorded, else summed up from the differences.

    Without totals the level before the first event is not known: it is the least with which no later one is negative.
    """
    return _levels(events, events.bytes, events.total, events.has_total)


def reserved(events: MemoryEvents) -> Levels | None:
    """Memory that the allocators of the processes hold; None where it was not recorded."""
    if not events.has_reserved.any():
        return None
    return _levels(events, np.zeros(len(events), np.int64), events.reserved, events.has_reserved)


def _levels(events: MemoryEvents, change: Ints, total: Ints, known: Flags) -> Levels:
    """The sum of the levels of all processes: each has an allocator, and totals, of its own."""
    base, exact = 0, True
    after = np.zeros(len(events), np.int64)
    for process in np.unique(events.process).tolist():
        mine = np.flatnonzero(events.process == process)
        first, levels, told = _of_process(change[mine], total[mine], known[mine])
        base, exact = base + first, exact and told
        after[mine] = np.diff(levels, prepend=first)
    return Levels(base, base + np.cumsum(after), exact)


def _of_process(change: Ints, total: Ints, known: Flags) -> tuple[int, Ints, bool]:
    """Level before the first event, after each, and whether these are exact."""
    summed = np.cumsum(change)
    if not known.any():
        base = -min(int(summed.min()), 0)
        return base, base + summed, False
    # Each event stands on the last one before it of which the total is known; those before the first, on that one.
    place = np.arange(len(change))
    anchor = np.maximum.accumulate(np.where(known, place, -1))
    anchor[anchor < 0] = int(np.argmax(known))
    levels = total[anchor] + summed - summed[anchor]
    return int(levels[0] - change[0]), levels, True


def freed_at(events: MemoryEvents) -> Ints:
    """Of each allocation the place of the event that ends it, `NEVER` without; frees have -1.

    That is the next event at its address: a free, or an allocation, since then the free before it was not recorded.
    Allocations without an address are not known to end.
    """
    allocation = events.bytes > 0
    out = np.where(allocation, NEVER, -1)
    at = np.flatnonzero(events.has_address)
    if not len(at):
        return out
    same = groups(events.process[at], events.address[at]).of_row
    order = at[np.lexsort((at, same))]
    again = np.sort(same)
    follows = np.flatnonzero((again[1:] == again[:-1]) & allocation[order[:-1]])
    out[order[follows]] = order[follows + 1]
    return out
