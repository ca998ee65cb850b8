"""Which call of an operator launched each device operation: the innermost operator around its launch."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.passes.operations import Ints
from traceanalyzer.passes.scope import Scope
from traceanalyzer.schema.kinds import EventKind

NONE = -1


@dataclass(frozen=True, slots=True)
class LaunchingOperators:
    """Of each launch the event of the innermost operator around it, its name and its arguments; `NONE` without."""

    event: Ints
    name: NDArray[np.int32]
    args: NDArray[np.int32]


def launching_operators(scope: Scope, capture: int, launches: Ints) -> LaunchingOperators:
    """The innermost operator around each launch call of a capture, by the numbers of the calls.

    Goes outwards level by level, for all launches at once: mostly one, for an operator is what launches.
    """
    at = _parents(scope, capture, launches)
    name_and_args = (np.full(len(launches), NONE, np.int32) for _ in range(2))
    found = LaunchingOperators(np.full(len(launches), NONE, np.int64), *name_and_args)
    left = np.flatnonzero(at != NONE)
    while len(left):
        event, parent, kind, name, args = _events(scope, capture, at[left])
        row = np.searchsorted(event, at[left])
        known = (row < len(event)) & (event[np.minimum(row, len(event) - 1)] == at[left]) if len(event) else row < 0
        left, row = left[known], row[known]
        here = kind[row] == int(EventKind.OPERATOR)
        mine = left[here]
        found.event[mine], found.name[mine], found.args[mine] = (part[row[here]] for part in (event, name, args))
        left, outer = left[~here], parent[row[~here]]
        at[left] = outer
        left = left[outer != NONE]
    return found


def _parents(scope: Scope, capture: int, launches: Ints) -> Ints:
    event, parent, *_ = _events(scope, capture, launches)
    out = np.full(len(launches), NONE, np.int64)
    if len(event):
        row = np.minimum(np.searchsorted(event, launches), len(event) - 1)
        out = np.where(event[row] == launches, parent[row], NONE)
    return out


def _events(scope: Scope, capture: int, wanted: Ints) -> tuple[Ints, Ints, Ints, NDArray[np.int32], NDArray[np.int32]]:
    """(event, parent, kind, name, args) of events by their numbers, sorted by these."""
    got = scope.connection.execute(
        f"""SELECT event_id, coalesce(parent_id, {NONE})::BIGINT AS parent, kind::BIGINT AS kind,
            coalesce(name, {NONE})::INTEGER AS name, coalesce(args, {NONE})::INTEGER AS args
        FROM stored.cpu_events
        WHERE capture = $capture AND event_id IN (SELECT unnest($wanted::BIGINT[])) ORDER BY event_id""",
        {"capture": capture, "wanted": np.unique(wanted)},
    ).fetchnumpy()
    event, parent, kind, name, args = (np.asarray(got[c]) for c in ("event_id", "parent", "kind", "name", "args"))
    return event, parent, kind, name, args
