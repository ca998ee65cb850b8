"""Units of stored and printed numbers, and the only place where a number is scaled for people."""

from enum import StrEnum


class Unit(StrEnum):
    """Unit of a column. Stored numbers are never scaled: the unit in the column's name is the unit in the table."""

    NONE = ""
    NS = "ns"
    BYTES = "bytes"
    COUNT = "count"
    SHARE = "share"
    PERCENT = "%"
    GB_PER_S = "GB/s"
    BYTES_PER_S = "bytes/s"


_TIME = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"))
_SIZE = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def _scaled(value: float, steps: tuple[tuple[int, str], ...], smallest: str) -> str:
    for size, name in steps:
        if abs(value) >= size:
            return f"{value / size:,.3f} {name}"
    return f"{value:,.0f} {smallest}"


def counted(count: int, one: str, several: str | None = None) -> str:
    """A count with its noun: `1 step`, `1,200 steps`; `several` where the plural takes more than an `s`."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def format_value(value: object, unit: Unit) -> str:
    """A number as people read it: times and sizes scaled with their unit, shares as percent, counts grouped.

    Text, and null as an empty string, come back as they are.
    """
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if unit is Unit.NS:
        return _scaled(value, _TIME, "ns")
    if unit is Unit.BYTES:
        return _scaled(value, _SIZE, "B")
    if unit is Unit.SHARE:
        return f"{100 * value:.1f} %"
    if unit is Unit.PERCENT:
        return f"{value:.1f} %"
    if unit is Unit.GB_PER_S:
        return f"{value:.2f} GB/s"
    if unit is Unit.BYTES_PER_S:
        return f"{value / 1e9:.3f} GB/s"
    if unit is Unit.COUNT:
        return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"
    return str(value) if isinstance(value, int) else _plain(value)


_LARGE = 1e6


def _plain(value: float) -> str:
    """A fraction without a unit: four significant digits are enough for people."""
    return f"{value:,.0f}" if abs(value) >= _LARGE else f"{value:.4g}" if not value.is_integer() else str(value)
