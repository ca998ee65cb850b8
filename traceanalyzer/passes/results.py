"""Results of passes under the names by which `sql` and `export` know them, worked out where they are asked for.

Every table of every pass is `<pass>_<table>`: `gaps_devices`, `steps_steps`, `kernels_kernels`. Where no stored table
and no other pass has its name, the table's own name means it as well: `causes`, `totals`; of several it means that of
the pass of the name: `gaps`, `ledger`, `kernels`. `gap_pieces`, the finest account of idle time, is part of no answer
and has just that name.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

import duckdb
import numpy as np

from traceanalyzer.passes.answer import Frame, TableSpec
from traceanalyzer.passes.gaps import GAP_PIECES, gap_pieces
from traceanalyzer.passes.idle.stacks import StackTree
from traceanalyzer.passes.registry import PASSES
from traceanalyzer.passes.scope import Scope
from traceanalyzer.passes.stack_nodes import SPEC as STACK_NODES
from traceanalyzer.passes.stack_nodes import complete_stack_nodes
from traceanalyzer.schema.tables import TABLE_BY_NAME

_NUMBERS = {"BIGINT": np.int64, "INTEGER": np.int32, "DOUBLE": np.float64, "BOOLEAN": np.bool_}


_LISTS = frozenset({"stack"})
"""Columns of lists of text, also where a table is empty or its lists are."""


@dataclass(frozen=True, slots=True)
class Result:
    """A table of a pass; without one it is `gap_pieces`."""

    spec: TableSpec
    question: str | None = None


def _registry() -> dict[str, Result]:
    own: dict[str, list[Result]] = {}
    for question, each in PASSES.items():
        for spec in each.tables:
            own.setdefault(spec.name, []).append(Result(spec, question))
    results = {GAP_PIECES.name: Result(GAP_PIECES)}
    for name, found in own.items():
        owners = [r for r in found if r.question == name] or found
        if len(owners) == 1 and name not in TABLE_BY_NAME:
            results[name] = owners[0]
    return results | {f"{r.question}_{r.spec.name}": r for found in own.values() for r in found}


RESULTS: dict[str, Result] = _registry()
"""Every result by each of its names."""
OFFERED = frozenset(RESULTS) | {STACK_NODES.name}
"""Names that `results` may know."""


_CLOSE = 0.6
"""Likeness from which on a name may be meant by another."""


def no_table(unknown: Sequence[str]) -> str:
    """Says that there are no such tables or results, and which there are: those of like names first."""

    def like(name: str) -> float:
        texts = [(name, 1.0), *((part, 0.95) for part in name.split("_"))]
        return max(
            SequenceMatcher(None, word.lower(), text).ratio() * worth for word in unknown for text, worth in texts
        )

    known = {name: like(name) for name in (*TABLE_BY_NAME, *sorted(RESULTS))}
    close = sorted((name for name in known if known[name] >= _CLOSE), key=lambda name: (-known[name], name))
    meant = f"did you mean {' or '.join(close[:3])}? There are also" if close else "there are"
    rest = [name for name in known if name not in close]
    return f"no table {', '.join(unknown)}; {meant} {', '.join([*close[3:], *rest])}"


def results(scope: Scope, names: Iterable[str]) -> dict[str, Frame]:
    """The results of these names, whole: lists are not cut. Each pass is asked once, whatever is wanted of it.

    `stack_nodes` is among them where the stored table lacks stacks that `gap_pieces` names.
    """
    whole = replace(scope, selection=replace(scope.selection, top=0), warnings=[])
    answers = {}
    frames = {}
    wanted = set(names)
    swept = None
    if GAP_PIECES.name in wanted:
        swept = StackTree(whole)
        frames[GAP_PIECES.name] = gap_pieces(whole, swept)
    if STACK_NODES.name in wanted and (complete := complete_stack_nodes(whole, swept)) is not None:
        frames[STACK_NODES.name] = complete
    for name in sorted(wanted):
        question = RESULTS[name].question if name in RESULTS else None
        if question is not None:
            if question not in answers:
                answers[question] = PASSES[question](whole)
            frames[name] = answers[question].tables[RESULTS[name].spec.name]
    return frames


def offer(connection: duckdb.DuckDBPyConnection, name: str, frame: Frame) -> None:
    """Make a result a temporary table of that name."""
    columns = {}
    types = []
    for column in frame.spec.columns:
        values, kind = frame.columns[column.name], column.type.public
        if kind == "VARCHAR":
            kind = "VARCHAR[]" if column.name in _LISTS else kind
            array = np.empty(len(values), object)
            array[:] = values
        else:
            array = np.ma.masked_array(
                np.array([0 if v is None else v for v in values], _NUMBERS[kind]), mask=[v is None for v in values]
            )
        columns[column.name] = array
        types.append(f'"{column.name}" {kind}')
    connection.register("offered_rows", columns)
    try:
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} ({', '.join(types)})")
        connection.execute(f"INSERT INTO temp.{name} BY NAME SELECT * FROM offered_rows")
    finally:
        connection.unregister("offered_rows")
