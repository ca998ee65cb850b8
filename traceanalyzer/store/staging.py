"""Staging of one capture: what a reader writes goes into temporary tables, until the whole file is known.

The temporary tables belong to the writing connection and spill to disk; nothing of them reaches the store before
`traceanalyzer.store.commit` puts everything in place in one transaction.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping

import duckdb
import numpy as np

from traceanalyzer.schema.column import Column, Table, Type
from traceanalyzer.schema.kinds import Severity
from traceanalyzer.schema.sink import CaptureFacts, Stacks, Texts, Values
from traceanalyzer.schema.tables import TABLE_BY_NAME, TABLES

BATCH_ROWS = 122_880
"""Rows that are collected before they are written: a row group of the engine."""

MOST_TIME_NS = (1 << 62) - 1
"""Times beyond this, 146 years from zero, are damage: differences of any two others fit into 64 bits."""
_TIMES = ("start_ns", "end_ns", "t_ns")

NUMBERED = {"gpu_ops": "op_id", "cpu_events": "event_id"}
"""Tables whose rows are numbered in the order of writing."""

STAGED = tuple(
    t for t in TABLES if t.name not in ("runs", "captures", "stack_nodes", "stack_changes", "quality", "steps")
)


def stage_columns(table: Table) -> tuple[Column, ...]:
    """Columns that a reader may write: all but `capture` and the derived ones."""
    return tuple(c for c in table.columns if not c.derived and c.name != "capture")


class Staging:
    """The sink of one capture. Implements `traceanalyzer.schema.sink.Sink`."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, keep_environment: bool = False) -> None:
        self.connection = connection
        self.texts = Texts(keep_homes=keep_environment)
        self.stacks = Stacks(self.texts)
        self.facts = CaptureFacts()
        self.keep_environment = keep_environment
        self.notes: Counter[tuple[str, str, Severity]] = Counter()
        self.rows: Counter[str] = Counter()
        self._waiting: dict[tuple[str, tuple[str, ...]], list[dict[str, Values]]] = defaultdict(list)
        self._waiting_rows: Counter[tuple[str, tuple[str, ...]]] = Counter()
        for table in STAGED:
            columns = ", ".join(f"{c.name} {c.type.sql}" for c in stage_columns(table))
            connection.execute(f"CREATE OR REPLACE TEMP TABLE stage_{table.name} ({columns})")

    def write(self, table: str, columns: Mapping[str, Values]) -> None:
        """Append rows, as `Sink.write` says. Raises `ValueError` for columns that the table does not have."""
        declared = {c.name: c for c in stage_columns(TABLE_BY_NAME[table])}
        if unknown := set(columns) - set(declared):
            raise ValueError(f"{table} has no columns {sorted(unknown)} for readers")
        batch = {name: _nulls_masked(declared[name], values) for name, values in columns.items()}
        count = len(next(iter(batch.values())))
        if not count:
            return
        if number := NUMBERED.get(table):
            batch.setdefault(number, np.arange(self.rows[table], self.rows[table] + count, dtype=np.int64))
        self.rows[table] += count
        batch = self._without_absurd_times(batch)
        key = (table, tuple(sorted(batch)))
        self._waiting[key].append(batch)
        self._waiting_rows[key] += count
        if self._waiting_rows[key] >= BATCH_ROWS:
            self._flush(key)

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

    def flush(self) -> None:
        """Write what is still waiting."""
        for key in list(self._waiting):
            self._flush(key)

    def _flush(self, key: tuple[str, tuple[str, ...]]) -> None:
        table, names = key
        batches = self._waiting.pop(key, [])
        self._waiting_rows.pop(key, None)
        if batches:
            append(self.connection, f"stage_{table}", {n: _joined([b[n] for b in batches]) for n in names})

    def close(self) -> None:
        """Drop the temporary tables."""
        for table in STAGED:
            self.connection.execute(f"DROP TABLE IF EXISTS stage_{table.name}")


def append(connection: duckdb.DuckDBPyConnection, table: str, columns: Mapping[str, Values]) -> None:
    """Append numpy columns to a table of the engine."""
    connection.register("batch_of_rows", dict(columns))
    try:
        names = ", ".join(columns)
        connection.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM batch_of_rows")
    finally:
        connection.unregister("batch_of_rows")


def _nulls_masked(column: Column, values: Values) -> Values:
    """Codes and node numbers below zero are nulls."""
    if column.type in (Type.NAME, Type.CHOICE) or column.name in ("node_id", "backtrace_node_id"):
        data = np.ma.getdata(values)
        null = np.ma.getmaskarray(values) | (data < 0)
        return np.ma.masked_array(np.where(null, 0, data), mask=null) if null.any() else data
    return values


def _joined(parts: list[Values]) -> Values:
    if len(parts) == 1:
        return parts[0]
    if any(isinstance(p, np.ma.MaskedArray) for p in parts):
        joined: Values = np.ma.concatenate(parts)  # type: ignore[no-untyped-call]
        return joined
    return np.concatenate(parts)
