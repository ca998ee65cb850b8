"""Staging of one capture: what a reader writes waits, until the whole file is known.

Nothing of it reaches the store before `traceanalyzer.store.commit` puts everything in place in one transaction. Rows
wait in memory, and on disk where they grow large; what is needed of them to work out derived columns is kept apart.
"""

from collections import Counter
from collections.abc import Mapping

import numpy as np

from traceanalyzer.errors import SourceError
from traceanalyzer.schema.batches import HeldBatches, single_if_possible
from traceanalyzer.schema.column import Column, Table, Type
from traceanalyzer.schema.kinds import Severity
from traceanalyzer.schema.sink import CaptureFacts, Stacks, Texts, Values
from traceanalyzer.schema.tables import TABLE_BY_NAME, TABLES
from traceanalyzer.store.recorded import Recorded

MOST_TIME_NS = (1 << 62) - 1
"""Times beyond this, 146 years from zero, are damage: differences of any two others fit into 64 bits."""
_TIMES = ("start_ns", "end_ns", "t_ns")

NUMBERED = {"gpu_ops": "op_id", "cpu_events": "event_id"}
"""Tables whose rows are numbered in the order of writing."""
_MOST_NUMBERED = 1 << 31

STAGED = tuple(
    t for t in TABLES if t.name not in ("runs", "captures", "stack_nodes", "stack_changes", "quality", "steps")
)
NODE_COLUMNS = frozenset({"node_id", "backtrace_node_id"})


def _stage_columns(table: Table) -> dict[str, Column]:
    """Columns that a reader may write: all but `capture`, numbers and derived ones."""
    number = NUMBERED.get(table.name)
    return {c.name: c for c in table.columns if not c.derived and c.name not in ("capture", number)}


_COLUMNS = {table.name: _stage_columns(table) for table in STAGED}


class Staging:
    """The sink of one capture. Implements `traceanalyzer.schema.sink.Sink`.

    `path` is the file, which errors name.
    """

    def __init__(self, path: object, keep_environment: bool = False) -> None:
        self._path = path
        self.texts = Texts(keep_homes=keep_environment)
        self.stacks = Stacks(self.texts)
        self.facts = CaptureFacts()
        self.keep_environment = keep_environment
        self.notes: Counter[tuple[str, str, Severity]] = Counter()
        self.rows: Counter[str] = Counter()
        self.recorded = Recorded(self.texts)
        self.held = {table.name: HeldBatches(path) for table in STAGED}

    def write(self, table: str, columns: Mapping[str, Values]) -> None:
        """Append rows, as `Sink.write` says.

        Raises `ValueError` for columns that the table does not have, `SourceError` where there are too many rows.
        """
        declared = _COLUMNS[TABLE_BY_NAME[table].name]
        if unknown := set(columns) - set(declared):
            raise ValueError(f"{table} has no columns {sorted(unknown)} for readers")
        batch = {name: _nulls_masked(declared[name], values) for name, values in columns.items()}
        count = len(next(iter(batch.values())))
        if not count:
            return
        if number := NUMBERED.get(table):
            first = self.rows[table]
            if first + count > _MOST_NUMBERED:
                raise SourceError(self._path, f"more than {_MOST_NUMBERED:,} rows of {table}", "cut it into parts")
            batch[number] = np.arange(first, first + count, dtype=np.int32)
        self.rows[table] += count
        batch = self._without_absurd_times(batch)
        if not len(next(iter(batch.values()))):
            return
        self.recorded.see(table, batch)
        self.held[table].add({name: single_if_possible(values) for name, values in batch.items()})

    def _without_absurd_times(self, batch: dict[str, Values]) -> dict[str, Values]:
        """The rows that can be computed with. The others keep their numbers, so that references stay what they are."""
        absurd: Values | None = None
        for values in (batch[name] for name in _TIMES if name in batch):
            if len(values) and (values.min() < -MOST_TIME_NS or values.max() > MOST_TIME_NS):
                beyond = np.ma.filled((values < -MOST_TIME_NS) | (values > MOST_TIME_NS), False)
                absurd = beyond if absurd is None else absurd | beyond
        if absurd is None:
            return batch
        text = "Records with a time of more than 146 years before or after zero were left out."
        self.note("time_out_of_range", text, int(absurd.sum()))
        return {name: values[~absurd] for name, values in batch.items()}

    def note(self, code: str, text: str, count: int = 1, severity: Severity = Severity.WARNING) -> None:
        """Say what was odd, as `Sink.note` says."""
        self.notes[code, text, severity] += count

    def close(self) -> None:
        """Forget the rows."""
        for held in self.held.values():
            held.close()


def _nulls_masked(column: Column, values: Values) -> Values:
    """Codes and node numbers below zero are nulls."""
    coded = column.type in (Type.NAME, Type.CHOICE) or column.name in NODE_COLUMNS
    return null_below_zero(values) if coded else values


def null_below_zero(values: Values) -> Values:
    """The same values, null also where they are below zero."""
    data = np.ma.getdata(values)
    null = np.ma.getmaskarray(values) | (data < 0)
    return np.ma.masked_array(np.where(null, 0, data), mask=null) if null.any() else data
