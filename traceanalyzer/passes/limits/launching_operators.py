"""Which call of an operator launched each device operation: the innermost operator around its launch."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.passes.chosen import Chosen
from traceanalyzer.passes.operations import Ints
from traceanalyzer.passes.scope import Scope
from traceanalyzer.schema.kinds import EventKind, Lane, OpKind

NONE = -1


@dataclass(frozen=True, slots=True)
class LaunchedKernels:
    """Kernels that operators launched: their numbers, names and times, and of each the call of the operator.

    `event` numbers the call, `op_name` and `args` are its name and arguments. `kernel_ns` is the time of all kernels.
    Times are whole, also of kernels that a window cuts: the work of their calls is.
    """

    op_id: Ints
    kernel: Ints
    ns: Ints
    event: Ints
    op_name: Ints
    args: Ints
    kernel_ns: int


def launched_kernels(scope: Scope, capture: int, chosen: Chosen) -> LaunchedKernels:
    """The chosen kernels with the innermost operators around their launches, communication left out.

    That operator is what the launch call lies in, but where a range or frame is open between them: those few are
    followed outwards, level by level, for all launches at once.
    """
    rows = scope.connection.execute(
        f"SELECT sum(whole_ns)::BIGINT FROM ({chosen.sql}) WHERE kind = {int(OpKind.KERNEL)}",
        chosen.parameters,
    ).fetchone()
    whole = int(rows[0]) if rows and rows[0] is not None else 0
    if not scope.holds("cpu_events", capture, f"kind = {int(EventKind.OPERATOR)} AND args IS NOT NULL"):
        none = np.zeros(0, np.int64)
        return LaunchedKernels(none, none, none, none, none, none, whole)
    got = scope.connection.execute(
        f"""SELECT o.op_id, coalesce(o.name, {NONE})::BIGINT AS kernel, o.whole_ns AS ns,
            coalesce(e.parent_id, {NONE})::BIGINT AS at
        FROM ({chosen.sql}) o
        LEFT JOIN stored.cpu_events e ON e.capture = o.capture AND e.event_id = o.launch_event_id
        WHERE o.kind = {int(OpKind.KERNEL)} AND o.lane != {int(Lane.COMMUNICATION)}""",
        chosen.parameters,
    ).fetchnumpy()
    op_id, kernel, ns, at = (np.asarray(got[c], np.int64) for c in ("op_id", "kernel", "ns", "at"))
    operators = _Operators(scope, capture)
    row = operators.around(at)
    inside = row != NONE
    event, name, args = (column[row[inside]] for column in (operators.event, operators.name, operators.args))
    parts = (op_id[inside], kernel[inside], ns[inside], event, name, args)
    return LaunchedKernels(*parts, whole)


class _Operators:
    """The operators of a capture, sorted by their numbers."""

    def __init__(self, scope: Scope, capture: int) -> None:
        self._scope, self._capture = scope, capture
        got = scope.connection.execute(
            f"""SELECT event_id, coalesce(name, {NONE})::BIGINT AS name, coalesce(args, {NONE})::BIGINT AS args
            FROM stored.cpu_events WHERE capture = ? AND kind = {int(EventKind.OPERATOR)} ORDER BY event_id""",
            [capture],
        ).fetchnumpy()
        self.event, self.name, self.args = (np.asarray(got[c], np.int64) for c in ("event_id", "name", "args"))

    def around(self, events: Ints) -> NDArray[np.intp]:
        """Of each event the row of the operator that it is, or of the innermost one around it; `NONE` without."""
        distinct, which = np.unique(events, return_inverse=True)
        found = np.full(len(distinct), NONE, np.intp)
        left, at = np.flatnonzero(distinct != NONE), distinct[distinct != NONE]
        while len(left):
            row = np.minimum(np.searchsorted(self.event, at), len(self.event) - 1)
            here = self.event[row] == at
            found[left[here]] = row[here]
            left, at = left[~here], self._parents(at[~here])
            left, at = left[at != NONE], at[at != NONE]
        return found[which.reshape(-1)]

    def _parents(self, events: Ints) -> Ints:
        if not len(events):
            return events
        got: dict[str, Any] = self._scope.connection.execute(
            f"""SELECT event_id, coalesce(parent_id, {NONE})::BIGINT AS parent FROM stored.cpu_events
            WHERE capture = $capture AND event_id IN (SELECT unnest($wanted::BIGINT[])) ORDER BY event_id""",
            {"capture": self._capture, "wanted": np.unique(events)},
        ).fetchnumpy()
        event, parent = (np.asarray(got[c], np.int64) for c in ("event_id", "parent"))
        if not len(event):
            return np.full(len(events), NONE, np.int64)
        row = np.minimum(np.searchsorted(event, events), len(event) - 1)
        return np.where(event[row] == events, parent[row], NONE)
