"""Calls of operators and modules as the store has them, thread by thread."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.passes.chosen import chosen_operations
from traceanalyzer.passes.operators.times import NO_LAUNCHES, Launches
from traceanalyzer.passes.scope import Scope
from traceanalyzer.passes.step_marks import Mark
from traceanalyzer.schema.kinds import EventKind

Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
NONE = -1
"""Stands for null: no thread, no name."""

_OPERATOR = f"""(kind = {int(EventKind.OPERATOR)} OR (kind = {int(EventKind.STEP_MARK)} AND domain IN (
    SELECT name_id FROM stored.names WHERE text IN ('Operator', 'cpu_op'))))"""
"""Early versions of the profiler recorded the marks of steps as operators as well."""
_NAMED_LIKE_ONE = f"""kind = {int(EventKind.RANGE)} AND name IN (
    SELECT name_id FROM stored.names WHERE regexp_matches(text, '^(aten|autograd|c10d|torch|FSDP)::'))"""
"""Ranges that emit_nvtx makes of operators: the names that idle time calls `framework` as well."""
MODULE_PREFIX = "nn.Module: "
_MODULE = f"""kind IN ({int(EventKind.PYTHON_FRAME)}, {int(EventKind.RANGE)}) AND name IN (
    SELECT name_id FROM stored.names WHERE starts_with(text, '{MODULE_PREFIX}'))"""


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls of one thread: times, the code of the name and of the arguments of each (`stored.names`, -1 for none)."""

    process: int
    thread: int
    rank: int | None
    start: Ints
    end: Ints
    name: Codes
    args: Codes


def operators_are_ranges(scope: Scope, capture: int) -> bool:
    """Whether a capture has no operators, but ranges that are named like some."""
    has_none = not scope.holds("cpu_events", capture, _OPERATOR)
    return has_none and scope.holds("cpu_events", capture, _NAMED_LIKE_ONE)


def operator_calls(scope: Scope, capture: int) -> Iterator[Calls]:
    """Operators of a capture; where it has none, ranges that are named like some."""
    return _calls(scope, capture, _NAMED_LIKE_ONE if operators_are_ranges(scope, capture) else _OPERATOR)


def module_calls(scope: Scope, capture: int) -> Iterator[Calls]:
    """Calls of modules: frames, or ranges, named `nn.Module: ...`."""
    return _calls(scope, capture, _MODULE)


def _calls(scope: Scope, capture: int, condition: str) -> Iterator[Calls]:
    events = f"SELECT * FROM stored.cpu_events WHERE capture = $capture AND {condition}"
    threads = scope.connection.execute(
        f"""SELECT coalesce(e.process, {NONE}), coalesce(e.thread, {NONE}), any_value(coalesce(p.rank, c.rank))
        FROM ({events}) e JOIN stored.captures c ON c.capture = e.capture
        LEFT JOIN stored.processes p ON p.capture = e.capture AND p.process = e.process
        GROUP BY ALL ORDER BY ALL""",
        {"capture": capture},
    ).fetchall()
    ranks = scope.selection.ranks
    for process, thread, rank in threads:
        if ranks is not None and rank is not None and rank not in ranks:
            continue
        got = scope.connection.execute(
            f"""SELECT e.start_ns, e.end_ns, coalesce(s.frame, e.name, {NONE})::INTEGER AS name,
                coalesce(e.args, {NONE})::INTEGER AS args
            FROM ({events}) e LEFT JOIN stored.stack_nodes s ON s.node_id = e.node_id
            WHERE coalesce(e.process, {NONE}) = $process AND coalesce(e.thread, {NONE}) = $thread
            ORDER BY e.start_ns, e.end_ns DESC, e.event_id""",
            {"capture": capture, "process": process, "thread": thread},
        ).fetchnumpy()
        columns = (np.asarray(got[column]) for column in ("start_ns", "end_ns", "name", "args"))
        yield Calls(process, thread, rank, *columns)


def launches_of(scope: Scope, capture: int) -> tuple[dict[tuple[int, int], Launches], dict[int | None, int]]:
    """The selected operations of a capture by the (process, thread) that launched them, and the time of all by rank.

    Those without a launch in the file are part of the time of all only.
    """
    found: dict[tuple[int, int], list[tuple[Ints, Ints]]] = {}
    whole: dict[int | None, int] = {}
    for device in (d for d in scope.devices if d.capture == capture):
        chosen = chosen_operations(scope, device)
        got = scope.connection.execute(
            f"""SELECT coalesce(e.process, {NONE}) AS process, coalesce(e.thread, {NONE}) AS thread,
                e.start_ns AS launched, o.end_ns - o.start_ns AS ns
            FROM ({chosen.sql}) o LEFT JOIN stored.cpu_events e
                ON e.capture = o.capture AND e.event_id = o.launch_event_id""",
            chosen.parameters,
        ).fetchnumpy()
        ns = np.asarray(got["ns"], np.int64)
        whole[device.rank] = whole.get(device.rank, 0) + int(ns.sum())
        known = np.flatnonzero(~np.ma.getmaskarray(got["launched"]))
        process, thread, at = (np.asarray(got[c])[known] for c in ("process", "thread", "launched"))
        order = np.lexsort((thread, process))
        process, thread, at, ns = process[order], thread[order], at[order], ns[known][order]
        edges = np.flatnonzero((np.diff(process) != 0) | (np.diff(thread) != 0)) + 1
        for part in np.split(np.arange(len(order)), edges):
            if len(part):
                place = int(process[part[0]]), int(thread[part[0]])
                found.setdefault(place, []).append((at[part], ns[part]))
    joined = {place: Launches.sorted(*map(np.concatenate, zip(*parts, strict=True))) for place, parts in found.items()}
    return joined, whole


def launches_on(launches: dict[tuple[int, int], Launches], calls: Calls) -> Launches:
    """The launches of the thread of some calls."""
    return launches.get((calls.process, calls.thread), NO_LAUNCHES)


def in_steps(calls: Calls, marks: list[Mark], steps: tuple[int, int]) -> NDArray[np.bool_]:
    """Which calls began inside the marks of the selected steps of their process."""
    inside = np.zeros(len(calls.start), np.bool_)
    for mark in marks:
        if mark.process == calls.process and steps[0] <= mark.step <= steps[1]:
            inside |= (calls.start >= mark.start) & (calls.start < mark.end)
    return inside
