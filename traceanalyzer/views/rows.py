"""Rows and columns of tables as people see them, wherever they are shown."""

from traceanalyzer.passes.answer import Frame
from traceanalyzer.schema.column import Column, Type

_NUMBERS = frozenset({Type.INT64, Type.INT32, Type.FLOAT64})


def is_number(frame: Frame, column: Column) -> bool:
    """Whether a column is to be aligned to the right; columns of `sql` only show it by values."""
    values = [value for value in frame.columns[column.name] if value is not None]
    return column.type in _NUMBERS or (bool(values) and all(isinstance(value, (int, float)) for value in values))


def cut(frame: Frame, top: int) -> Frame:
    """The first `top` rows of a table that may be cut; totals stay whole."""
    return frame.head(top) if frame.spec.cut else frame
