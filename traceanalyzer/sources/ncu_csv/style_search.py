"""The first look at a file: how its numbers are written."""

from math import prod

from traceanalyzer.errors import SourceError
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.ncu_csv.launches import names_of, sizes_of
from traceanalyzer.sources.ncu_csv.numbers import NumberStyle, StyleFinder, StyleUndecidedError
from traceanalyzer.sources.ncu_csv.tables import Layout, Row, Tables

_KNOWN_SIZES = {
    "launch__grid_size": ("Grid Size",),
    "Grid Size": ("Grid Size",),
    "launch__block_size": ("Block Size",),
    "Block Size": ("Block Size",),
    "launch__thread_count": ("Grid Size", "Block Size"),
    "Threads": ("Grid Size", "Block Size"),
}
_LONG_COLUMNS = ("Metric Value", "Invocations", "Minimum", "Maximum", "Average")


def styles_of(file: TraceFile) -> dict[int, NumberStyle]:
    """The style of the numbers of each table: processes that append to one file need not share a locale.

    Raises `SourceError` where it stays open and makes a difference.
    """
    finders: dict[int, StyleFinder] = {}
    for row in Tables(TraceFile(file.path)):
        finder = finders.setdefault(row.header.number, StyleFinder())
        if row.header.layout is Layout.WIDE and not row.is_units:
            for position in row.header.metrics:
                _show(finder, row, row.header.names[position], "", row.cells[position])
        elif row.header.layout in (Layout.LONG, Layout.SUMMARY):
            metric, unit = names_of(row.get("Metric Name").strip())[1], row.get("Metric Unit")
            for name in _LONG_COLUMNS:
                if text := row.get(name):
                    _show(finder, row, metric, unit, text)
    try:
        return {number: finder.decide() for number, finder in finders.items()}
    except StyleUndecidedError as error:
        why = f"cannot tell how its numbers are written: {error}"
        raise SourceError(file.path, why, "print it again with LC_ALL=C") from error


def _show(finder: StyleFinder, row: Row, metric: str, unit: str, text: str) -> None:
    finder.see(text, unit, row.header.mixed)
    columns = _KNOWN_SIZES.get(metric)
    if columns is not None and row.header.layout is not Layout.SUMMARY:
        sizes = [sizes_of(row.get(column)) for column in columns]
        if None not in sizes:
            finder.see_known(text, prod(count for size in sizes for count in size or ()), row.header.mixed)
