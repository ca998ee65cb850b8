"""Ops: what each operator takes on the host and on the devices, by name, by shapes and by module."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from traceanalyzer.errors import UsageError
from traceanalyzer.passes.answer import Answer, Finding, Frame, TableSpec
from traceanalyzer.passes.chosen import warmup_warning
from traceanalyzer.passes.columns import CAPTURE
from traceanalyzer.passes.gaps import no_timeline
from traceanalyzer.passes.limits.utilization import shapes_of
from traceanalyzer.passes.operations import window_of
from traceanalyzer.passes.operators.load import (
    MODULE_PREFIX,
    NONE,
    Calls,
    Codes,
    in_steps,
    launches_of,
    launches_on,
    module_calls,
    operator_calls,
    operators_are_ranges,
)
from traceanalyzer.passes.operators.times import Launches, ThreadCalls, Times
from traceanalyzer.passes.scope import Scope
from traceanalyzer.passes.selection import OPERATOR_GROUPINGS
from traceanalyzer.passes.step_marks import Mark, load_marks
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.schema.kinds import EventKind
from traceanalyzer.units import Unit, counted, format_value

_RANK = Column("rank", Type.INT32, "Rank of the process; null if unknown.")
_TIMES = (
    Column("calls", Type.INT64, "How often it was called; calls inside of a call of the same count too.", Unit.COUNT),
    Column(
        "host_total_ns",
        Type.INT64,
        "Host time in which a call of it is open, with what it calls; nested in itself it counts once.",
        Unit.NS,
    ),
    Column("host_self_ns", Type.INT64, "Host time in which it is the innermost one open on its thread.", Unit.NS),
    Column(
        "device_total_ns",
        Type.INT64,
        "Durations of the device operations that its thread launched while a call of it was open.",
        Unit.NS,
    ),
    Column(
        "device_self_ns",
        Type.INT64,
        "Durations of the device operations that its thread launched while it was the innermost one open.",
        Unit.NS,
    ),
    Column("host_share", Type.FLOAT64, "Its host_self of that of all rows of the rank.", Unit.SHARE),
    Column(
        "device_share",
        Type.FLOAT64,
        "Its device_self of the durations of all operations of the rank's devices.",
        Unit.SHARE,
    ),
    Column("host_mean_ns", Type.FLOAT64, "Mean duration of a call.", Unit.NS),
    Column("n_ops", Type.INT64, "Device operations launched while it was the innermost one open.", Unit.COUNT),
)
_OP = Column("op", Type.TEXT, "Name of the operator.")
OPS = TableSpec(
    "ops",
    "Operators by name, the most device time of their own first, then host time.",
    (CAPTURE, _RANK, _OP, *_TIMES),
)
BY_SHAPE = TableSpec(
    "by_shape",
    "Operators by name and the shapes of their inputs, the most device time of their own first, then host time.",
    (CAPTURE, _RANK, _OP, Column("shapes", Type.TEXT, "Shapes of its inputs; null if not recorded."), *_TIMES),
)
BY_MODULE = TableSpec(
    "by_module",
    "Calls of modules (nn.Module), the most device time of their own first, then host time; self is without modules"
    " inside.",
    (CAPTURE, _RANK, Column("module", Type.TEXT, "Class and number of the module, as recorded: Linear_3."), *_TIMES),
)
TABLES = (OPS, BY_SHAPE, BY_MODULE)
_STEP_MARK = re.compile(r"ProfilerStep#?\s*\d+")
_LONGEST_SHAPES = 2_000
_NAME_IN_FINDING = 100
Row = tuple[Any, ...]


def ops(scope: Scope) -> Answer:
    """Tables `ops`, `by_shape` and `by_module`. Times in ns, exact.

    `host_self_ns` of all operators adds up to the time in which threads have an operator open; that of calls which
    cross belongs to the later one until it ends. Operators of a backward pass count on the threads of autograd that run
    them. With `--steps` calls count that began in a step's mark, and operations that were launched in it; `--window`
    cuts both. Captures without operators, as nsys makes them, have ranges named like operators in their place.
    """
    by = scope.selection.by
    if by is not None and by not in OPERATOR_GROUPINGS:
        raise UsageError(f"--by {by}: give {', '.join(OPERATOR_GROUPINGS)}")
    rows: dict[str, list[Row]] = {spec.name: [] for spec in TABLES}
    unlaunched = whole = 0
    for capture in scope.captures:
        found = _CaptureTimes(scope, capture)
        rows["ops"] += found.rows(found.operators, lambda name, _: (name,))
        rows["by_shape"] += found.rows(found.shapes, lambda name, shapes: (name, shapes))
        rows["by_module"] += found.rows(found.modules, lambda name, _: (name.removeprefix(MODULE_PREFIX),))
        unlaunched, whole = unlaunched + found.unlaunched_ns, whole + sum(found.whole.values())
    for name, key in (("ops", 3), ("by_shape", 4), ("by_module", 3)):
        rows[name].sort(key=lambda row, key=key: _largest_first(row, key))  # type: ignore[misc]
    answer = Answer(
        "ops",
        {spec.name: Frame.of_rows(spec, rows[spec.name]) for spec in TABLES},
        findings=_findings(rows["ops"]),
        warnings=[*scope.warnings, *warmup_warning(scope)],
        default_table="ops" if by is None else f"by_{by}",
        notes=_notes(scope),
    )
    answer.warnings += _warnings(scope, answer, unlaunched, whole)
    return answer


def _largest_first(row: Row, key: int) -> tuple[Any, ...]:
    """Order of rows; `key` is the place of `calls`."""
    return (-row[key + 4], -row[key + 2], -row[key + 3], -row[key + 1], *map(str, row[:key]))


@dataclass
class _Group:
    """Sums of a rank, and what they are of: codes of a name and of arguments or shapes."""

    keys: dict[tuple[int, int], int] = field(default_factory=dict)
    times: Times = field(default_factory=Times)

    def codes(self, name: Codes, second: Codes) -> Codes:
        """Numbers of the groups of some calls; those that are new get one."""
        pairs, which = np.unique(name.astype(np.int64) << 32 | (second.astype(np.int64) + 1), return_inverse=True)
        mine = [self.keys.setdefault((pair >> 32, (pair & 0xFFFFFFFF) - 1), len(self.keys)) for pair in pairs.tolist()]
        self.times.grow(len(self.keys))
        numbers: Codes = np.array(mine, np.int32)[which.reshape(-1)]
        return numbers


class _CaptureTimes:
    """Times of the operators and modules of a capture, by rank."""

    def __init__(self, scope: Scope, capture: int) -> None:
        self._scope, self._capture = scope, capture
        self._window = window_of(scope, capture)
        self._marks: list[Mark] = [] if scope.selection.steps is None else load_marks(scope, capture)
        self.operators: dict[int | None, _Group] = {}
        self.shapes: dict[int | None, _Group] = {}
        self.modules: dict[int | None, _Group] = {}
        launches, self.whole = launches_of(scope, capture)
        self.unlaunched_ns = sum(self.whole.values()) - sum(int(each.ns.sum()) for each in launches.values())
        self._shape_texts: list[str | None] = []
        shape_of = _Shapes(scope, self._shape_texts)
        for calls in operator_calls(scope, capture):
            swept = self._swept(calls, launches)
            none = np.full(len(calls.name), NONE, np.int32)
            self._add(self.operators, calls, swept, none)
            self._add(self.shapes, calls, swept, shape_of(calls.args))
        for calls in module_calls(scope, capture):
            self._add(self.modules, calls, self._swept(calls, launches), np.full(len(calls.name), NONE, np.int32))

    def _swept(self, calls: Calls, launches: dict[tuple[int, int], Launches]) -> ThreadCalls:
        steps = self._scope.selection.steps
        chosen = None if steps is None else in_steps(calls, self._marks, steps)
        return ThreadCalls(calls.start, calls.end, launches_on(launches, calls), self._window, chosen)

    def _add(self, groups: dict[int | None, _Group], calls: Calls, swept: ThreadCalls, second: Codes) -> None:
        group = groups.setdefault(calls.rank, _Group())
        codes = group.codes(calls.name, second)
        swept.add_to(group.times, codes)

    def rows(
        self, groups: dict[int | None, _Group], named: Callable[[str, str | None], tuple[str | None, ...]]
    ) -> Iterator[Row]:
        """Rows of a table, in no order; those of nothing selected are left out."""
        texts = self._scope.texts(name for group in groups.values() for name, _ in group.keys)
        for rank, group in groups.items():
            times = group.times
            host = int(times.host_self.sum())
            device = self.whole.get(rank) or sum(self.whole.values())
            columns = (times.calls, times.whole, times.host_total, times.host_self, times.device_total)
            numbers = np.stack((*columns, times.device_self, times.n_ops), axis=1).tolist()
            for (name, second), (calls, length, total, alone, on_device, own, n_ops) in zip(
                group.keys, numbers, strict=True
            ):
                if not calls and not on_device:
                    continue
                yield (
                    *(self._capture, rank, *named(texts.get(name, ""), self._text(second))),
                    *(calls, total, alone, on_device, own),
                    *(alone / host if host else None, own / device if device else None),
                    *(length / calls if calls else None, n_ops),
                )

    def _text(self, second: int) -> str | None:
        return self._shape_texts[second] if 0 <= second < len(self._shape_texts) else None


class _Shapes:
    """Numbers of the shapes of arguments, and their texts: each distinct text of arguments is read once."""

    def __init__(self, scope: Scope, texts: list[str | None]) -> None:
        self._scope, self._texts = scope, texts
        self._of_text: dict[str | None, int] = {}
        self._of_args: dict[int, int] = {}

    def __call__(self, args: Codes) -> Codes:
        """Numbers of the shapes; those of calls without are -1."""
        distinct, which = np.unique(args, return_inverse=True)
        unknown = [code for code in distinct.tolist() if code != NONE and code not in self._of_args]
        recorded = self._scope.texts(unknown)
        for code in unknown:
            text = shapes_of(recorded.get(code), _LONGEST_SHAPES)
            if text is not None and text not in self._of_text:
                self._of_text[text] = len(self._texts)
                self._texts.append(text)
            self._of_args[code] = self._of_text.get(text, NONE)
        numbers = np.array([self._of_args.get(code, NONE) for code in distinct.tolist()], np.int32)
        return numbers[which.reshape(-1)]


def _findings(rows: list[Row]) -> list[Finding]:
    """The operators with the most time of their own, on the devices and on the host."""
    out = []
    for code, at, share, what in (
        ("top_operator_device", 7, 9, "of the device time"),
        ("top_operator_host", 5, 8, "of the host time in operators"),
    ):
        operators = (row for row in rows if not _STEP_MARK.fullmatch(row[2]))
        best = max(operators, key=lambda row: row[at], default=None)
        if best is None or not best[at] or best[share] is None:
            continue
        rank = "" if best[1] is None else f" of rank {best[1]}"
        name = best[2] if len(best[2]) <= _NAME_IN_FINDING else f"{best[2][:_NAME_IN_FINDING]} ..."
        text = (
            f"{format_value(best[share], Unit.SHARE)} {what}{rank}: {name} itself, {counted(best[3], 'call')},"
            f" {format_value(best[at], Unit.NS)}"
        )
        out.append(Finding(code, text, best[1], best[at]))
    return out


def _notes(scope: Scope) -> list[str]:
    notes = [
        f"{scope.note()}; total is with what an operator calls, self without; backward operators count where they run"
    ]
    if any(operators_are_ranges(scope, capture) for capture in scope.captures):
        notes.append("no operators were recorded: ranges named like operators (aten::, autograd::, ...) stand for them")
    return notes


def _warnings(scope: Scope, answer: Answer, unlaunched: int, whole: int) -> list[str]:
    out = []
    if not len(answer.tables["ops"]):
        out.append(
            no_timeline(scope)
            or "no operators in what is selected; torch.profiler records them with activities=[CPU, CUDA], nsys with"
            " torch.autograd.profiler.emit_nvtx()"
        )
    elif unlaunched and whole and unlaunched >= _LEAST_UNLAUNCHED * whole:
        share = format_value(unlaunched / whole, Unit.SHARE)
        out.append(f"{share} of the device time has no launch in the file and counts for no operator")
    by = scope.selection.by
    if by == "module" and not len(answer.tables["by_module"]):
        out.append("no modules were recorded; torch.profiler records them with with_stack=True")
    shapes = f"kind = {int(EventKind.OPERATOR)} AND args IS NOT NULL"
    if by == "shape" and not any(scope.holds("cpu_events", capture, shapes) for capture in scope.captures):
        out.append("no shapes were recorded; torch.profiler records them with record_shapes=True")
    return out


_LEAST_UNLAUNCHED = 0.01
"""Share of the device time from which on it is said that it was not launched in the file."""
