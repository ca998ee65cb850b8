"""Attributing all gaps of a store, beside what the engine needs for the union of intervals and the join of launches.

`python -m tests.bench.attribution STORE [REPEAT]` prints JSON: seconds of both (the best of the repeats),
their ratio, and the peak of memory in MiB.
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

from traceanalyzer.passes.idle.lanes import devices_with_gaps
from traceanalyzer.passes.idle.stacks import StackTree
from traceanalyzer.passes.idle.totals import IdleTotals
from traceanalyzer.passes.scope import resolve
from traceanalyzer.passes.selection import Selection
from traceanalyzer.store.allocation import give_back_large_arrays
from traceanalyzer.store.database import open_to_read

UNION = """WITH o AS (
    SELECT device, start_ns, max(end_ns) OVER (
        PARTITION BY device ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM stored.gpu_ops
) SELECT device, sum(greatest(0, start_ns - before)), count(*) FILTER (start_ns > before) FROM o GROUP BY device"""
LAUNCHES = """SELECT count(*), sum(e.start_ns), sum(e.end_ns) FROM stored.gpu_ops o JOIN stored.cpu_events e
    ON e.capture = o.capture AND e.process = o.process AND e.correlation_id = o.correlation_id AND e.kind = 0"""


def _timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _reference(connection: duckdb.DuckDBPyConnection) -> None:
    for query in (UNION, LAUNCHES):
        connection.execute(query).fetchall()


def _attribution(connection: duckdb.DuckDBPyConnection) -> None:
    scope = resolve(connection, Selection())
    tree = StackTree(scope)
    for part in devices_with_gaps(scope, tree):
        totals = IdleTotals()
        for pieces in part.pieces():
            totals.add(pieces)
        if sum(idle for *_, idle, _ in totals.groups()) != part.idle_ns:
            raise AssertionError("the causes do not add up")


def main(store: str, repeat: int = 3) -> None:
    """Measure and print."""
    give_back_large_arrays()
    with open_to_read(Path(store)) as connection:
        ours = min(_timed(lambda: _attribution(connection)) for _ in range(repeat))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        theirs = min(_timed(lambda: _reference(connection)) for _ in range(repeat))
    print(json.dumps({"ours_s": ours, "reference_s": theirs, "ratio": ours / theirs, "peak_mib": peak}))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:3]))
