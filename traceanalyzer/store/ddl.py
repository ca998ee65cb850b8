"""SQL of the store, made from the declared schema: stored tables, public views, comments."""

from collections.abc import Iterator

from traceanalyzer.schema.column import Column, Table, Type
from traceanalyzer.schema.tables import SCHEMA_VERSION, TABLES

RANK = Column("rank", Type.INT32, "Rank of the row's process, else of its capture; null if unknown or several.")


def quoted(text: str) -> str:
    """A text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def public_columns(table: Table) -> tuple[Column, ...]:
    """Columns of the public view of a table: the stored ones, and the rank behind `capture` where the table has one."""
    if not table.has_rank:
        return table.columns
    names = [c.name for c in table.columns]
    at = names.index("capture") + 1
    return (*table.columns[:at], RANK, *table.columns[at:])


def create_statements() -> Iterator[str]:
    """Every statement that makes an empty store, in order."""
    yield "CREATE SCHEMA stored"
    yield "CREATE TABLE stored.version (schema_version INTEGER NOT NULL, made_by VARCHAR NOT NULL)"
    yield "CREATE TABLE stored.names (name_id INTEGER NOT NULL, text VARCHAR NOT NULL)"
    for table in TABLES:
        yield f"CREATE TABLE stored.{table.name} ({', '.join(map(_stored_column, table.columns))})"
        yield _view(table)
        yield f"COMMENT ON VIEW {table.name} IS {quoted(table.meaning)}"
        for column in public_columns(table):
            yield f"COMMENT ON COLUMN {table.name}.{column.name} IS {quoted(_about(column))}"


def version_row(made_by: str) -> str:
    """The statement that marks a store with its schema version."""
    return f"INSERT INTO stored.version VALUES ({SCHEMA_VERSION}, {quoted(made_by)})"


def _stored_column(column: Column) -> str:
    return (
        f"{column.name} {column.type.sql}"
        f"{'' if column.nullable else ' NOT NULL'}{' USING COMPRESSION rle' if column.steady else ''}"
    )


def _about(column: Column) -> str:
    return column.meaning + (f" [{column.unit}]" if column.unit else "")


def _view(table: Table) -> str:
    joins, selected = [], []
    for column in public_columns(table):
        if column is RANK and table.has_rank:
            process = "p.rank, " if "process" in table.by_name else ""
            selected.append(f"coalesce({process}c.rank) AS rank")
        elif column.type is Type.NAME:
            alias = f"n_{column.name}"
            joins.append(f"LEFT JOIN stored.names {alias} ON {alias}.name_id = t.{column.name}")
            selected.append(f"{alias}.text AS {column.name}")
        elif column.type is Type.CHOICE:
            texts = ", ".join(quoted(x) for x in column.choices)
            selected.append(f"([{texts}])[t.{column.name} + 1] AS {column.name}")
        else:
            selected.append(f"t.{column.name}")
    if table.has_rank:
        joins.append("LEFT JOIN stored.captures c ON c.capture = t.capture")
        if "process" in table.by_name:
            joins.append("LEFT JOIN stored.processes p ON p.capture = t.capture AND p.process = t.process")
    return f"CREATE VIEW {table.name} AS SELECT {', '.join(selected)} FROM stored.{table.name} t {' '.join(joins)}"
