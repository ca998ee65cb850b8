"""SQL of people's own, read-only, over the public views and the results of passes."""

import re
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import duckdb

from traceanalyzer.errors import UsageError
from traceanalyzer.passes.answer import Answer, Frame, TableSpec
from traceanalyzer.passes.gaps import gap_pieces
from traceanalyzer.passes.scope import Scope
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.store.database import one_line

PASS_TABLES = ("gap_pieces",)
"""Results of passes that a query may name: worked out only where it does."""


def query(scope: Scope, text: str) -> Answer:
    """Table `rows` of one read-only statement. `gap_pieces` covers the selected captures.

    Raises `UsageError` where the statement is wrong, is several, or would write or read other files.
    """
    connection = scope.connection
    if re.search(r"\bgap_pieces\b", text, re.IGNORECASE):
        _offer(connection, gap_pieces(scope))
    try:
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        statements = connection.extract_statements(text)
        if len(statements) != 1:
            raise UsageError(f"give one statement; these are {len(statements)}")
        if statements[0].type.name not in ("SELECT", "EXPLAIN", "RELATION", "PRAGMA", "CALL"):
            raise UsageError(f"only questions: {statements[0].type.name} statements would change the store")
        cursor = connection.execute(statements[0])
        names = _distinct([d[0] for d in cursor.description or []])
        top = scope.selection.top
        rows = cursor.fetchmany(top + 1) if top else cursor.fetchall()
    except duckdb.Error as error:
        raise UsageError(f"the query failed: {one_line(error)}") from error
    warnings = list(scope.warnings)
    if top and len(rows) > top:
        rows = rows[:top]
        warnings.append(f"only the first {top} rows are shown; --top 0 shows all")
    spec = TableSpec("rows", "Rows of the query.", tuple(Column(n, Type.TEXT, "Column of the query.") for n in names))
    return Answer("sql", {"rows": Frame.of_rows(spec, [[_plain(v) for v in row] for row in rows])}, warnings=warnings)


def _offer(connection: duckdb.DuckDBPyConnection, frame: Frame) -> None:
    """Make a result a temporary table of the same name."""
    import numpy as np

    columns = {}
    for column in frame.spec.columns:
        values = frame.columns[column.name]
        if column.type.public == "VARCHAR":
            array = np.empty(len(values), object)
            array[:] = values
        else:
            kind = {"BIGINT": np.int64, "INTEGER": np.int32, "DOUBLE": np.float64, "BOOLEAN": np.bool_}[
                column.type.public
            ]
            array = np.ma.masked_array(
                np.array([0 if v is None else v for v in values], kind), mask=[v is None for v in values]
            )
        columns[column.name] = array
    connection.register("offered_rows", columns)
    types = ", ".join(f"{c.name} {c.type.public}" for c in frame.spec.columns)
    connection.execute(f"CREATE TEMP TABLE {frame.spec.name} ({types})")
    connection.execute(f"INSERT INTO temp.{frame.spec.name} SELECT {', '.join(columns)} FROM offered_rows")
    connection.unregister("offered_rows")


def _distinct(names: list[str]) -> list[str]:
    out: list[str] = []
    for name in names:
        fresh, number = name, 2
        while fresh in out:
            fresh, number = f"{name}_{number}", number + 1
        out.append(fresh)
    return out


def _plain(value: Any) -> Any:
    """A value that JSON and CSV can hold."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, (datetime, date, time, timedelta)):
        return str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
