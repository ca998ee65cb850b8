"""What a column and a table are: declared once, read by the store, the command line and the reference page."""

from dataclasses import dataclass, field
from enum import Enum

from traceanalyzer.units import Unit


class Type(Enum):
    """How a column is stored (value: its DuckDB type) and how it reaches people (`public`)."""

    INT64 = "BIGINT"
    INT32 = "INTEGER"
    FLOAT64 = "DOUBLE"
    BOOL = "BOOLEAN"
    TEXT = "VARCHAR"
    NAME = "INTEGER "  # a code into the dictionary `names`; people see the text
    CHOICE = "UTINYINT"  # an index into `Column.choices`; people see the text

    @property
    def sql(self) -> str:
        """The DuckDB type of the stored column."""
        return self.value.strip()

    @property
    def public(self) -> str:
        """The DuckDB type that people see in the public view."""
        return "VARCHAR" if self in (Type.NAME, Type.CHOICE) else self.sql


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name carries the unit, its meaning is a sentence that stands in every place that shows it.

    `derived` columns are filled by the store after a file was read; readers never write them. `steady` ones have
    the same value, or none, in row after row: they are stored as runs, which is less work than to find the best way.
    """

    name: str
    type: Type
    meaning: str
    unit: Unit = Unit.NONE
    nullable: bool = True
    choices: tuple[str, ...] = ()
    derived: bool = False
    steady: bool = False

    def __post_init__(self) -> None:
        if bool(self.choices) != (self.type is Type.CHOICE):
            raise ValueError(f"column {self.name}: choices and the type CHOICE go together")


@dataclass(frozen=True, slots=True)
class Table:
    """One table of the common schema.

    `keys` names the columns that tell its rows apart. A table with `has_rank` shows the rank of the row's process
    (else of its capture) in its public view; the rank is stored once, in `processes` and `captures`.
    """

    name: str
    meaning: str
    columns: tuple[Column, ...]
    keys: tuple[str, ...] = ()
    has_rank: bool = False
    by_name: dict[str, Column] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {c.name: c for c in self.columns})
        missing = set(self.keys) - set(self.by_name)
        if missing or len(self.by_name) < len(self.columns):
            raise ValueError(f"table {self.name}: keys {missing} are no columns, or a name occurs twice")
