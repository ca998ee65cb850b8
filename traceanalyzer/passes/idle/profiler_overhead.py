"""What the profiler says of its own work: it decides wherever it is open."""

import numpy as np

from traceanalyzer.passes.causes import Cause, cause_of_overhead
from traceanalyzer.passes.idle.step_functions import NOTHING, StepFunction, first_of, of_union
from traceanalyzer.passes.scope import Scope
from traceanalyzer.schema.kinds import EventKind


def load_overhead(scope: Scope, capture: int, process: int, thread: int) -> StepFunction:
    """The cause of the profiler's own work over the time of a thread. Rows without a thread count for all.

    Where its loading of libraries and other work overlap, the loading decides.
    """
    if not scope.holds("cpu_events", capture, f"kind = {int(EventKind.OVERHEAD)}"):
        return NOTHING
    got = scope.connection.execute(
        f"""SELECT start_ns, end_ns, coalesce(name, -1)::INTEGER AS name FROM stored.cpu_events
        WHERE capture = $capture AND kind = {int(EventKind.OVERHEAD)} AND end_ns > start_ns
            AND (process IS NULL OR process = $process) AND (thread IS NULL OR thread = $thread)""",
        {"capture": capture, "process": process, "thread": thread},
    ).fetchnumpy()
    start, end, name = (np.asarray(got[column], np.int64) for column in ("start_ns", "end_ns", "name"))
    if not len(start):
        return NOTHING
    names, inverse = np.unique(name, return_inverse=True)
    texts = scope.texts(names.tolist())
    cause = np.array([int(cause_of_overhead(texts.get(n, ""))) for n in names.tolist()], np.int32)[inverse.reshape(-1)]
    found = [
        of_union(start[cause == c], end[cause == c], int(c))
        for c in (Cause.MODULE_LOAD, Cause.PROFILER)
        if (cause == c).any()
    ]
    return first_of(*found)
