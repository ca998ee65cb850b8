"""The reference page of the schema, made from its declarations: `python -m traceanalyzer.schema.reference`."""

import sys

from traceanalyzer.schema.column import Column, Table, Type
from traceanalyzer.schema.tables import SCHEMA_VERSION, TABLES

_INTRODUCTION = f"""\
# Tables of the store

Generated from `traceanalyzer/schema` by `python -m traceanalyzer.schema.reference`; do not edit.

Schema version {SCHEMA_VERSION}. Every table below is a view that `traceanalyzer sql` and any DuckDB client can read.
Names are text there, whatever they are inside. Times are integer nanoseconds on the clock of the file that they come
from; `captures.utc_offset_ns` leads to Unix time where the file tells it. A duration is `end_ns - start_ns`.
"""

_TYPES = {"BIGINT": "integer", "INTEGER": "integer", "DOUBLE": "float", "BOOLEAN": "boolean", "VARCHAR": "text"}
_RANK = Column("rank", Type.INT32, "Rank of the row's process, else of its capture; null where unknown.")


def schema_reference() -> str:
    """The page, as Markdown."""
    contents = "\n".join(f"- [`{table.name}`](#{table.name}): {_text(table.meaning)}" for table in TABLES)
    return "\n".join([_INTRODUCTION, contents, *("\n" + _section(table) for table in TABLES)]) + "\n"


def _section(table: Table) -> str:
    columns = [*table.columns, _RANK] if table.has_rank else [*table.columns]
    lines = [f"## {table.name}", "", _text(table.meaning), ""]
    if table.keys:
        lines += [f"One row for each {', '.join(f'`{key}`' for key in table.keys)}.", ""]
    lines += ["| column | type | unit | null | meaning |", "| --- | --- | --- | --- | --- |"]
    return "\n".join(lines + [_row(column) for column in columns])


def _row(column: Column) -> str:
    choices = f" One of {', '.join(f'`{choice}`' for choice in column.choices)}." if column.choices else ""
    null = "yes" if column.nullable else "no"
    kind = _TYPES[column.type.public]
    return f"| `{column.name}` | {kind} | {column.unit or ' '} | {null} | {_text(column.meaning)}{choices} |"


def _text(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(schema_reference())
