"""Samples of a thread's stack: what each stands for.

A sample of a Python stack stands from its instant to the next one, at most two sampling periods (the median distance of
the thread's samples), and not beyond the end of an API call open at its instant; from there the next sample, if within
a period, stands back to that end.
"""

import duckdb
import numpy as np
from numpy.typing import NDArray

from traceanalyzer.passes.idle.step_functions import NOTHING, StepFunction, of_disjoint
from traceanalyzer.passes.idle.threads import ThreadEvents
from traceanalyzer.passes.scope import Scope
from traceanalyzer.schema.kinds import SampleKind
from traceanalyzer.store.database import first_row

Ints = NDArray[np.int64]


def load_samples(scope: Scope, capture: int, process: int, thread: int, events: ThreadEvents) -> StepFunction:
    """The sampled Python stack of a thread over time, as nodes."""
    at, node = _samples(scope, capture, process, thread, SampleKind.PYTHON)
    return of_disjoint(*standing(at, node, *_calls(events))) if len(at) else NOTHING


def load_native_samples(scope: Scope, capture: int, process: int, thread: int) -> StepFunction:
    """The sampled native stack of a thread over time, as nodes: each stands to the next, at most two periods."""
    at, node = _samples(scope, capture, process, thread, SampleKind.NATIVE)
    none = np.zeros(0, np.int64)
    return of_disjoint(*standing(at, node, none, none)) if len(at) else NOTHING


def python_period_ns(connection: duckdb.DuckDBPyConnection, capture: int) -> int | None:
    """Median distance of the samples of Python of a capture, thread by thread; None where no thread has two."""
    row = first_row(
        connection.execute(
            f"""SELECT median(d)::BIGINT FROM (
                SELECT t_ns - lag(t_ns) OVER (PARTITION BY process, thread ORDER BY t_ns) AS d FROM stored.samples
                WHERE capture = ? AND kind = {int(SampleKind.PYTHON)})""",
            [capture],
        )
    )
    return None if row is None or row[0] is None else int(row[0])


def _samples(scope: Scope, capture: int, process: int, thread: int, kind: SampleKind) -> tuple[Ints, NDArray[np.int32]]:
    if not scope.holds("samples", capture):
        return np.zeros(0, np.int64), np.zeros(0, np.int32)
    got = scope.connection.execute(
        f"""SELECT t_ns, any_value(node_id)::INTEGER AS node FROM stored.samples
        WHERE capture = ? AND process = ? AND thread = ? AND kind = {int(kind)} AND node_id IS NOT NULL
        GROUP BY t_ns ORDER BY t_ns""",
        [capture, process, thread],
    ).fetchnumpy()
    return np.asarray(got["t_ns"], np.int64), np.asarray(got["node"], np.int32)


def standing(at: Ints, node: NDArray[np.int32], calls: Ints, ends: Ints) -> tuple[Ints, Ints, NDArray[np.int32]]:
    """Disjoint intervals for which samples stand, and their nodes; `calls`, `ends` are the outermost API calls."""
    period = int(np.median(np.diff(at))) if len(at) > 1 else 0
    after = np.append(at[1:], np.iinfo(np.int64).max)
    until = np.minimum(after, at + 2 * period)
    k = np.searchsorted(calls, at, side="right") - 1
    inside = (k >= 0) & (ends[np.maximum(k, 0)] > at) if len(calls) else np.zeros(len(at), bool)
    returned = np.where(inside, ends[np.maximum(k, 0)], until) if len(calls) else until
    # From the call's end on the next sample stands, if it comes soon.
    back = inside[:-1] & (returned[:-1] < after[:-1]) & (after[:-1] - returned[:-1] <= period)
    low = np.concatenate((at, returned[:-1][back]))
    high = np.concatenate((np.minimum(returned, until), after[:-1][back]))
    own = np.concatenate((node, node[1:][back]))
    order = np.argsort(low, kind="stable")
    return low[order], high[order], own[order]


def _calls(events: ThreadEvents) -> tuple[Ints, Ints]:
    """The outermost API calls of a thread."""
    call = np.flatnonzero(events.tree.is_call[events.node])
    start, end = events.start[call], events.end(call)
    if not len(call):
        return start, end
    outermost = np.append(True, start[1:] >= np.maximum.accumulate(end)[:-1])
    return start[outermost], end[outermost]
