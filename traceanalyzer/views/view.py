"""What a view of a command is: which tables and columns people see, and what to do next."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class View:
    """The view of one command.

    `shown` are the tables on a terminal, in order; none: all of them. `columns` picks the columns of a table; a table
    that is not named there, and a name that a table lacks, is no error. `beneath` names the column of a table that gets
    a line of its own beneath each row. `spare` names columns of a table that are left out, the first one first, where a
    row would not fit the terminal. `nulls` says what null means in a column where it means something, and `marks`
    names columns that are shown only where a value is not zero or false. `hints` are commands worth running next.
    `heat` names a table of ranks and steps, and its column that is drawn as a heat map. `hidden` names columns that
    are left out of tables which are shown whole, unless they tell rows apart. `unless_empty` names tables that are
    shown only where they have rows, or no table has any. `is_card` says that what is behind each row of the first table
    is told beneath it.
    """

    shown: tuple[str, ...] = ()
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    beneath: dict[str, str] = field(default_factory=dict)
    spare: dict[str, tuple[str, ...]] = field(default_factory=dict)
    nulls: dict[str, str] = field(default_factory=dict)
    marks: frozenset[str] = frozenset()
    hints: tuple[tuple[str, str], ...] = ()
    heat: tuple[str, str] | None = None
    hidden: frozenset[str] = frozenset()
    unless_empty: frozenset[str] = frozenset()
    is_card: bool = False
