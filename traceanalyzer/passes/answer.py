"""What a question is answered with: tables with declared columns, findings in sentences, warnings."""

import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from traceanalyzer.cells import BETWEEN_FRAMES, cell, heading, printable
from traceanalyzer.errors import TraceAnalyzerError, UsageError
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.units import counted

if TYPE_CHECKING:
    import polars
    import pyarrow


@dataclass(frozen=True, slots=True)
class TableSpec:
    """Name, meaning and columns of a result table.

    `cut` says whether `--top` may cut its rows (lists may be cut, totals never).
    """

    name: str
    meaning: str
    columns: tuple[Column, ...]
    cut: bool = True


class Frame:
    """A result table: its declaration and its columns as lists of Python values (int, float, str, bool, list, None).

    Raises `ValueError` where the columns are not those of the declaration, or differ in length.
    """

    def __init__(self, spec: TableSpec, columns: Mapping[str, Sequence[Any]]) -> None:
        declared = [c.name for c in spec.columns]
        if sorted(declared) != sorted(columns):
            raise ValueError(f"table {spec.name}: columns {sorted(columns)} are not the declared {sorted(declared)}")
        self.spec = spec
        self.columns: dict[str, list[Any]] = {name: list(columns[name]) for name in declared}
        if len({len(v) for v in self.columns.values()}) > 1:
            raise ValueError(f"table {spec.name}: columns of different length")

    @classmethod
    def of_rows(cls, spec: TableSpec, rows: Sequence[Sequence[Any]]) -> "Frame":
        """A frame of rows in the order of the declared columns."""
        turned = list(zip(*rows, strict=True)) if rows else [()] * len(spec.columns)
        return cls(spec, {c.name: values for c, values in zip(spec.columns, turned, strict=True)})

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), []))

    def __repr__(self) -> str:
        return f"<{counted(len(self), 'row')} of {self.spec.name}: {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        """The first rows as a table, for notebooks: names are text in it."""
        shown = self.head(_ROWS_IN_NOTEBOOK)
        heads = "".join(f"<th title='{_html(c.meaning)}'>{_html(heading(c))}</th>" for c in self.spec.columns)
        lines = []
        for row in shown.rows():
            texts = (cell(row[column.name], column) for column in self.spec.columns)
            cells = (text if isinstance(text, str) else BETWEEN_FRAMES.join(text) for text in texts)
            lines.append("<tr>" + "".join(f"<td>{_html(text)}</td>" for text in cells) + "</tr>")
        more = len(self) - len(shown)
        foot = f"<p>{counted(more, 'more row')}</p>" if more else ""
        title = f"<caption>{_html(self.spec.meaning)}</caption>"
        return f"<table>{title}<thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table>{foot}"

    def rows(self) -> Iterator[dict[str, Any]]:
        """Rows as dictionaries, in order."""
        names = tuple(self.columns)
        for row in zip(*self.columns.values(), strict=True):
            yield dict(zip(names, row, strict=True))

    def head(self, count: int) -> "Frame":
        """The first rows; all of them where `count` is 0."""
        return self if count <= 0 else Frame(self.spec, {k: v[:count] for k, v in self.columns.items()})

    def to_arrow(self) -> "pyarrow.Table":
        """The table for Arrow; columns carry unit and meaning as field metadata. Needs pyarrow."""
        pa = library("pyarrow")
        kinds = {"BIGINT": pa.int64(), "INTEGER": pa.int32(), "DOUBLE": pa.float64(), "BOOLEAN": pa.bool_()}
        arrays, fields = [], []
        for column in self.spec.columns:
            values = self._numbers(column)
            members = self._members(column)
            text = pa.string() if members is None else pa.list_(pa.int64() if members is int else pa.string())
            arrays.append(pa.array(values, kinds.get(column.type.public, text)))
            about = {"unit": str(column.unit), "meaning": column.meaning}
            fields.append(pa.field(column.name, arrays[-1].type, metadata=about))
        table: pyarrow.Table = pa.table(arrays, schema=pa.schema(fields))
        return table

    def to_polars(self) -> "polars.DataFrame":
        """The table for polars. Needs polars."""
        pl = library("polars")
        kinds = {"BIGINT": pl.Int64, "INTEGER": pl.Int32, "DOUBLE": pl.Float64, "BOOLEAN": pl.Boolean}
        schema = {}
        for column in self.spec.columns:
            members = self._members(column)
            text = pl.String if members is None else pl.List(pl.Int64 if members is int else pl.String)
            schema[column.name] = kinds.get(column.type.public, text)
        columns = {column.name: self._numbers(column) for column in self.spec.columns}
        frame: polars.DataFrame = pl.DataFrame(columns, schema=schema)
        return frame

    def _members(self, column: Column) -> type[int] | type[str] | None:
        """What the lists of a column hold, as those of ranks and of stacks do; None where it has none."""
        lists = [value for value in self.columns[column.name] if isinstance(value, list)]
        if not lists:
            return None
        return int if all(isinstance(one, int) for value in lists for one in value) else str

    def _numbers(self, column: Column) -> list[Any]:
        """Values of a column; integers among floats, which may be too wide for 64 bits, as floats."""
        values = self.columns[column.name]
        if column.type is not Type.FLOAT64:
            return values
        return [float(value) if isinstance(value, int) else value for value in values]


_ROWS_IN_NOTEBOOK = 30


def _html(text: str) -> str:
    return html.escape(printable(text))


def library(name: str) -> Any:
    """An optional library, imported. Raises `TraceAnalyzerError`, which tells how to install it."""
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError:
        raise TraceAnalyzerError(
            f"{name.partition('.')[0]} is not installed; run: pip install 'gpu-traceanalyzer[frames]'"
        ) from None


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence worth reading, with a stable code and, where it has one, its cost."""

    code: str
    text: str
    rank: int | None = None
    cost_ns: int | None = None


@dataclass(repr=False)
class Answer:
    """The answer to one question. Its tables are attributes as well: `answer.devices`, `answer.gaps`."""

    command: str
    tables: dict[str, Frame]
    findings: list[Finding] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    default_table: str = ""
    notes: list[str] = field(default_factory=list)
    """Sentences that stand above the tables on a terminal: which run, which window, which lane."""
    language: str = "en"
    """Language of its sentences."""
    shown_by: "Callable[[Answer], str] | None" = None
    """What makes HTML of it for notebooks: set by those who know how."""

    def __repr__(self) -> str:
        tables = ", ".join(f"{name} ({counted(len(frame), 'row')})" for name, frame in self.tables.items())
        return f"<{self.command}{': ' if self.notes else ''}{'; '.join(self.notes)}; tables {tables}>"

    def _repr_html_(self) -> str | None:
        """Findings, figures and tables for notebooks."""
        return None if self.shown_by is None else self.shown_by(self)

    def __getattr__(self, name: str) -> Frame:
        try:
            return self.__dict__["tables"][name]  # type: ignore[no-any-return]
        except KeyError:
            raise AttributeError(f"{type(self).__name__} has no table {name!r}") from None

    def table(self, name: str | None = None) -> Frame:
        """A table by name; without one the table that this question prints first."""
        wanted = name or self.default_table or next(iter(self.tables))
        if wanted not in self.tables:
            raise UsageError(f"{self.command} has no table {wanted!r}; it has {', '.join(self.tables)}")
        return self.tables[wanted]

    def to_arrow(self, table: str | None = None) -> "pyarrow.Table":
        """A table for Arrow: the default one, or `table`."""
        return self.table(table).to_arrow()

    def to_polars(self, table: str | None = None) -> "polars.DataFrame":
        """A table for polars: the default one, or `table`."""
        return self.table(table).to_polars()
