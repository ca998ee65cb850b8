"""The table of nccl-tests: which columns stand where, and what a row says."""

import re
from dataclasses import dataclass

from traceanalyzer.sources.telemetry import is_missing, number

_HEADER = re.compile(r"#\s*size\s+count\s+type\b(.*)")
_TAGS = re.compile(r"\[\d+(?:,\d+)?\]<\w+>:|\[\d+\]")
"""What launchers put before lines, and between the columns where they tag each write: `[1,0]<stdout>:`, `[0]`."""
_LABEL = re.compile(r"^\s*(?:(?:>\s?)+|[\w.-]+:(?=\s|#|$))")
"""Label of a line: the rank of `srun --label`, the host of pdsh, the mark of a quotation."""
_DTYPE = re.compile(r"u?int(?:8|32|64)?|char|uchar|half|float|double|bfloat16|bf16|fp16|f(?:p|loat)?8_?e[45]m[23]\w*")
_WHOLE = re.compile(r"-?\d{1,19}")
TIMES = ("time", "cputime")
"""Columns that a measurement begins with."""
METRICS = {
    "time": ("time", "us"),
    "cputime": ("cpu_time", "us"),
    "algbw": ("algbw", "GB/s"),
    "busbw": ("busbw", "GB/s"),
    "#wrong": ("wrong", None),
    "error": ("error", None),
    "i_min": ("time_min", "us"),
    "i_max": ("time_max", "us"),
    "i_p99": ("time_p99", "us"),
    "i_cv%": ("time_variation", "%"),
    "#iters": ("iterations", None),
}
"""Metric and unit of each column. `error` of old versions is the largest difference, `#wrong` a count of elements."""
USUAL = ("time", "algbw", "busbw", "#wrong") * 2
_MOST_OFF = 0.02
_ROUNDED = 0.011  # both are printed with two decimals


@dataclass(frozen=True, slots=True)
class Row:
    """One row. `values` are (metric, unit, value, measurement), measurement 0 is the first one of the row."""

    size: int
    dtype: str
    redop: str | None
    root: int | None
    values: tuple[tuple[str, str | None, float | None, int | None], ...]
    stamp: str | None = None


def without_tags(line: str) -> str:
    """A line without what launchers added."""
    return _LABEL.sub("", _TAGS.sub(" ", line), count=1)


def columns_of(line: str) -> tuple[int, tuple[str, ...]] | None:
    """How many columns stand before the first time, and the names from there on, if a line is a table's header."""
    found = _HEADER.search(line)
    if found is None:
        return None
    names = found[1].split()
    first = next((k for k, name in enumerate(names) if name in TIMES), None)
    return None if first is None else (first + 3, tuple(names[first:]))


def is_row(cells: list[str]) -> bool:
    """Whether cells begin like a row: size, count, type."""
    return (
        len(cells) > 3
        and _WHOLE.fullmatch(cells[0]) is not None
        and _WHOLE.fullmatch(cells[1]) is not None
        and _DTYPE.fullmatch(cells[2]) is not None
    )


def row_of(cells: list[str], columns: tuple[str, ...], usual: int = 5) -> Row | None:
    """The row that cells hold under columns; None where it is torn or does not fit.

    `usual` is how many cells stand before the first time. Operations without a reduction leave one out; so may a torn
    row, of which the others then stand under the wrong names. Bandwidths tell which it is.
    """
    stamped = columns[-1:] == ("timestamp",)
    names = columns[:-1] if stamped else columns
    stamp = " ".join(cells[-2:]) if stamped else None
    cells = cells[:-2] if stamped else cells
    left, right = cells[: len(cells) - len(names)], cells[len(cells) - len(names) :]
    if not 3 <= len(left) <= usual or len(right) != len(names) or int(left[0]) < 0 or int(left[1]) < 0:
        return None
    redop = next((cell for cell in left[3:] if not _WHOLE.fullmatch(cell)), None)
    root = next((int(cell) for cell in left[3:] if _WHOLE.fullmatch(cell)), None)
    if len(left) == 5 and (redop is None or root is None):
        return None
    values = []
    measurement = -1
    for name, cell in zip(names, right, strict=True):
        measurement += name in TIMES
        value = number(cell)
        if value is None and not is_missing(cell):
            return None
        metric, unit = METRICS.get(name, (name, None))
        values.append((metric, unit, value, None if name == "#iters" else measurement))
    row = Row(int(left[0]), left[2], None if redop == "none" else redop, root, tuple(values), stamp)
    return row if len(left) == usual or fits(row) else None


def fits(row: Row) -> bool:
    """Whether bandwidths are sizes by times, as far as printed digits tell: then the columns are the right ones."""
    found: dict[int | None, dict[str, float | None]] = {}
    for metric, _unit, value, measurement in row.values:
        found.setdefault(measurement, {})[metric] = value
    for values in found.values():
        time, bandwidth = values.get("time"), values.get("algbw")
        if time is not None and time < 0:
            return False
        if time is not None and bandwidth is not None and time > 0:
            expected = row.size / time / 1000
            if abs(expected - bandwidth) > max(_ROUNDED, (_MOST_OFF + _ROUNDED / time) * expected):
                return False
    return True
