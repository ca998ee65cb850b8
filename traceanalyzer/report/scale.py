"""Scales of figures: the unit that suits the largest value, and values as people read them."""

from collections.abc import Sequence
from dataclasses import dataclass

from traceanalyzer.units import Unit, format_value

_TIME = ((2_000_000_000, 1e9, "s"), (2_000_000, 1e6, "ms"), (2_000, 1e3, "us"))
_SIZE = ((1 << 31, float(1 << 30), "GiB"), (1 << 21, float(1 << 20), "MiB"), (1 << 11, float(1 << 10), "KiB"))


@dataclass(frozen=True, slots=True)
class Scale:
    """A unit, and how many of what is stored are one of it."""

    size: float
    unit: str

    def of(self, values: Sequence[float | None]) -> list[float | None]:
        """Values in the unit, with the digits that a screen can show."""
        return [None if value is None else round(value / self.size, 6) for value in values]


def time_scale(values: Sequence[float | None]) -> Scale:
    """The scale for times in ns."""
    return _scale(values, _TIME, "ns")


def size_scale(values: Sequence[float | None]) -> Scale:
    """The scale for sizes in bytes."""
    return _scale(values, _SIZE, "B")


def _scale(values: Sequence[float | None], steps: tuple[tuple[int, float, str], ...], smallest: str) -> Scale:
    largest = max((abs(value) for value in values if value is not None), default=0)
    return next((Scale(size, unit) for least, size, unit in steps if largest >= least), Scale(1.0, smallest))


def time_text(ns: float) -> str:
    """A time as people read it."""
    return format_value(round(ns), Unit.NS)


def share_text(share: float) -> str:
    """A share as percent."""
    return format_value(share, Unit.SHARE)
