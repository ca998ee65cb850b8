"""When a thread holds the interpreter lock, where that was recorded."""

import numpy as np

from traceanalyzer.passes.causes import Cause
from traceanalyzer.passes.idle.step_functions import NOTHING, StepFunction, of_union
from traceanalyzer.passes.scope import Scope
from traceanalyzer.schema.kinds import EventKind


def load_lock(scope: Scope, capture: int, process: int, thread: int) -> StepFunction:
    """The cause `python` whenever a thread holds the interpreter lock: where nothing else is open, it runs Python."""
    if not scope.holds("cpu_events", capture, f"kind = {int(EventKind.GIL_HOLD)}"):
        return NOTHING
    got = scope.connection.execute(
        f"""SELECT start_ns, end_ns FROM stored.cpu_events
        WHERE capture = ? AND kind = {int(EventKind.GIL_HOLD)} AND process = ? AND thread = ?""",
        [capture, process, thread],
    ).fetchnumpy()
    return of_union(np.asarray(got["start_ns"], np.int64), np.asarray(got["end_ns"], np.int64), int(Cause.PYTHON))
