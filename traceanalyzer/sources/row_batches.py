"""Rows on their way to the sink, column by column, in batches."""

from collections import defaultdict
from typing import Any

import numpy as np

from traceanalyzer.schema.column import Type
from traceanalyzer.schema.sink import Sink, Values
from traceanalyzer.schema.tables import TABLE_BY_NAME

_ROWS = 50_000
_LARGEST = {Type.INT64: 2**63 - 1, Type.INT32: 2**31 - 1}
_KINDS = {Type.INT64: np.int64, Type.INT32: np.int32, Type.FLOAT64: np.float64, Type.BOOL: np.bool_}


class Batches:
    """Collects rows of several tables. Columns that a row does not name are null."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.counts: dict[str, int] = defaultdict(int)

    def add(self, table: str, row: dict[str, Any]) -> None:
        """One row: numbers, texts or None by column."""
        self._rows[table].append(row)
        self.counts[table] += 1
        if len(self._rows[table]) >= _ROWS:
            self._flush(table)

    def flush(self) -> None:
        """Write what is left."""
        for table in list(self._rows):
            self._flush(table)

    def _flush(self, table: str) -> None:
        rows = self._rows.pop(table)
        names = [c for c in TABLE_BY_NAME[table].columns if any(c.name in row for row in rows)]
        self._sink.write(table, {c.name: self._column(c.type, [row.get(c.name) for row in rows]) for c in names})

    def _column(self, kind: Type, values: list[Any]) -> Values:
        if kind is Type.NAME:
            return self._sink.texts.codes(values, len(values))
        if largest := _LARGEST.get(kind):
            fitting = [v if v is None or -largest <= v <= largest else None for v in values]
            if lost := fitting.count(None) - values.count(None):
                self._sink.note("number_out_of_range", "Numbers that no kernel can have are null.", lost)
            values = fitting
        nulls = [v is None for v in values]
        array: Values = np.array([0 if v is None else v for v in values], _KINDS[kind])
        masked: Values = np.ma.masked_array(array, mask=nulls) if any(nulls) else array
        return masked
