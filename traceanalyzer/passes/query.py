"""SQL of people's own, read-only, over the public views and the results of passes."""

import re
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import duckdb

from traceanalyzer.errors import UsageError
from traceanalyzer.passes.answer import Answer, Frame, TableSpec
from traceanalyzer.passes.results import OFFERED, no_table, offer, results
from traceanalyzer.passes.scope import Scope
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.store.database import first_row, one_line


def query(scope: Scope, text: str) -> Answer:
    """Table `rows` of one read-only statement. Results of passes that it names cover the selection, uncut.

    Raises `UsageError` where the statement is wrong, is several, or would write or read other files.
    """
    connection = scope.connection
    # Before anything looks at the text: finding its tables opens the files that it would read.
    lock(connection)
    for name, frame in results(scope, _named(connection, text)).items():
        offer(connection, name, frame)
    try:
        statements = connection.extract_statements(text)
        if len(statements) != 1:
            raise UsageError(f"give one statement; these are {len(statements)}")
        if statements[0].type.name not in ("SELECT", "EXPLAIN", "RELATION", "PRAGMA", "CALL"):
            raise UsageError(f"only questions: {statements[0].type.name} statements would change the store")
        cursor = connection.execute(statements[0])
        described = cursor.description or []
        names = _distinct([d[0] for d in described])
        top = scope.selection.top
        rows = cursor.fetchmany(top + 1) if top else cursor.fetchall()
    except duckdb.CatalogException as error:
        if (missing := _MISSING.search(str(error))) is None:
            raise UsageError(f"the query failed: {_said(error)}") from error
        raise UsageError(no_table([missing[1]])) from error
    except duckdb.Error as error:
        raise UsageError(f"the query failed: {_said(error)}") from error
    warnings = list(scope.warnings)
    if top and len(rows) > top:
        rows = rows[:top]
        shown = "the first row is" if top == 1 else f"the first {top} rows are"
        warnings.append(f"only {shown} shown; --top 0 shows all")
    plain = [[_plain(v) for v in row] for row in rows]
    by_column = list(zip(*plain, strict=True)) or [()] * len(names)
    columns = [
        Column(name, _type(str(told[1]), values), "Column of the query.")
        for name, told, values in zip(names, described, by_column, strict=True)
    ]
    spec = TableSpec("rows", "Rows of the query.", tuple(columns))
    return Answer("sql", {"rows": Frame.of_rows(spec, plain)}, warnings=warnings)


_MISSING = re.compile(r'Table with name "?(.+?)"? does not exist')


def _said(error: duckdb.Error) -> str:
    """What the engine says, with the names that it proposes, but without the place in the query."""
    first, *more = str(error).strip().partition("\n\nLINE ")[0].splitlines()
    return " ".join([one_line(duckdb.Error(first)), *(line.strip() for line in more if line.strip())])


def lock(connection: duckdb.DuckDBPyConnection) -> None:
    """Let the engine touch no file but the store, for as long as this process has it open."""
    if not is_locked(connection):
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")


def is_locked(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether `lock` was called for the store."""
    row = first_row(connection.execute("SELECT current_setting('lock_configuration')"))
    return bool(row and row[0])


def _named(connection: duckdb.DuckDBPyConnection, text: str) -> list[str]:
    """The results that a query names. Where its tables cannot be told apart, every name that occurs in it counts."""
    try:
        named = {name.lower() for name in connection.get_table_names(text)}
    except duckdb.Error:
        named = {word.lower() for word in re.findall(r"\w+", text)}
    return sorted(named & OFFERED)


_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"})
_WIDE = frozenset({"UBIGINT", "HUGEINT", "UHUGEINT"})
_LARGEST = 2**63 - 1


def _type(name: str, values: Sequence[Any]) -> Type:
    """Type of a column of the answer by the engine's name of it. Integers too wide for 64 bits count as floats."""
    if name in _INTEGERS or (name in _WIDE and all(v is None or abs(v) <= _LARGEST for v in values)):
        return Type.INT64
    if name in ("FLOAT", "DOUBLE") or name in _WIDE or name.startswith("DECIMAL"):
        return Type.FLOAT64
    return Type.BOOL if name == "BOOLEAN" else Type.TEXT


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
