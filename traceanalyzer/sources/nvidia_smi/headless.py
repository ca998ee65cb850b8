"""Rows of nvidia-smi that were recorded without their header: what can be told of their columns, and what cannot."""

import re
from collections.abc import Sequence
from itertools import pairwise

from traceanalyzer.sources.nvidia_smi.cells import with_unit
from traceanalyzer.sources.nvidia_smi.host import Host
from traceanalyzer.sources.nvidia_smi.monitor import Monitor
from traceanalyzer.sources.nvidia_smi.query_columns import QueryColumn, Role
from traceanalyzer.sources.telemetry import is_missing, number

_DATE = re.compile(r"\d{8}")
_TIME = re.compile(r"\d\d:\d\d:\d\d")
_POWER, _ENGINES = ("pwr", "gtemp", "mtemp"), ("sm", "mem", "enc", "dec", "jpg", "ofa")
_CLOCKS, _VIOLATIONS, _MEMORY = ("mclk", "pclk"), ("pviol", "tviol"), ("fb", "bar1", "ccpm")
_ERRORS, _PCIE = ("sbecc", "dbecc", "pci"), ("rxpci", "txpci")
_ALL = (*_POWER, *_ENGINES, *_CLOCKS, *_VIOLATIONS, *_MEMORY, *_ERRORS, *_PCIE)
_SETS = {
    "puc": (*_POWER, *_ENGINES, *_CLOCKS),
    "puc of older drivers": (*_POWER, *_ENGINES[:4], *_CLOCKS),
    "pucvmet": _ALL,
    "pucvmet of older drivers": tuple(name for name in _ALL if name != "ccpm"),
}
"""Sets of `dmon -s`, as nvidia-smi's manual orders them: the default one, and all. Other sets of as many columns have
values that lie outside of these ranges, or more clocks of memory than a GPU has."""
_SET_OF_COUNT = {len(columns): name for name, columns in _SETS.items()}
_RANGES = {
    "pwr": (1.0, 5000.0),
    **dict.fromkeys(("gtemp", "mtemp"), (1.0, 150.0)),
    **dict.fromkeys((*_ENGINES, "pviol"), (0.0, 100.0)),
    **dict.fromkeys(_CLOCKS, (100.0, 20_000.0)),
    "tviol": (0.0, 1.0),
}
_STATED = frozenset({"pwr", *_CLOCKS})
"""Columns without which a row does not tell that it is one of dmon."""
_MOST_MEMORY_CLOCKS = 8
_MOST_DEVICES = 64
_LEAST_IN_TURN = 0.9


def _split(line: str) -> list[str]:
    return [cell.strip() for cell in line.split(",")] if "," in line else line.split()


def _monitor_columns(line: str) -> tuple[str, list[str]] | None:
    """The set of dmon that a row is of, and all of its columns; None where it fits none."""
    cells = _split(line)
    stamps = [name for name, form in (("date", _DATE), ("time", _TIME)) if cells and _form(cells, name, form)]
    rest = cells[len(stamps) :]
    if "time" not in stamps or len(rest) - 1 not in _SET_OF_COUNT:
        return None
    found = _SET_OF_COUNT[len(rest) - 1]
    gpu, values = rest[0], rest[1:]
    if not (gpu.isascii() and gpu.isdigit() and int(gpu[:9]) < _MOST_DEVICES):
        return None
    fits = all(_fits(name, cell) for name, cell in zip(_SETS[found], values, strict=True))
    return (found, [*stamps, "gpu", *_SETS[found]]) if fits else None


def _form(cells: list[str], name: str, form: re.Pattern[str]) -> bool:
    at = 1 if name == "time" and _DATE.fullmatch(cells[0]) else 0
    return at < len(cells) and form.fullmatch(cells[at]) is not None


def _fits(name: str, cell: str) -> bool:
    if is_missing(cell):
        return name not in _STATED
    value = number(cell)
    low, high = _RANGES.get(name, (0.0, 1e9))
    return value is not None and low <= value <= high


def is_headless_monitor(lines: Sequence[str]) -> bool:
    """Whether rows are those of dmon with a time, of one set and with values that its columns can have.

    One row that is torn does not matter: the last one that was given may be cut.
    """
    first = _monitor_columns(lines[0]) if lines else None
    if first is None:
        return False
    fitting = [line for line in lines if _monitor_columns(line) == first]
    clocks = {_split(line)[first[1].index("mclk")] for line in fitting}
    return len(lines) - len(fitting) <= max(len(lines) // 10, 1) and len(clocks) <= _MOST_MEMORY_CLOCKS


def open_headless_monitor(line: str, host: Host, cut: bool) -> Monitor | None:
    """The table of dmon of which a line is the first row, where there is no header; says what it was taken for."""
    found = _monitor_columns(line) if len(line) < 1 << 12 else None
    if found is None:
        return None
    set_, columns = found
    monitor = Monitor(host)
    monitor.take("#" + (", " if "," in line else " ").join(columns), False)
    names = ", ".join(_SETS[set_])
    text = (
        f"There is no header: by their number and values the columns are taken for those of dmon -s {set_} ({names});"
        " record it again with its header to be sure."
    )
    host.sink.note("no_header", text)
    return monitor if monitor.take(line, cut) else None


def nameless_columns(cells: Sequence[str]) -> list[QueryColumn]:
    """Columns of rows of `--query-...` without a header, as far as their first cells tell."""
    out: list[QueryColumn] = []
    for place, cell in enumerate(cells, 1):
        found, role = with_unit(cell), Role.FACT
        if re.match(r"\d{4}/\d\d/\d\d \d\d:", cell):
            role = Role.TIME
        elif cell.startswith("GPU-"):
            role = Role.UUID
        elif re.fullmatch(r"[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]", cell):
            role = Role.BUS
        elif found is not None and found[1] is not None:
            role = Role.METRIC
        unit = found[1] if found is not None and role is Role.METRIC else None
        out.append(QueryColumn(f"column {place}", unit, role, stated=unit is not None))
    return out


def tell_columns(columns: list[QueryColumn], cells: Sequence[Sequence[str]]) -> list[str]:
    """Finds among columns without names the one that numbers the devices, and power; returns what was found, in words.

    The only column in W that changes is the power draw: limits stay as they are. No other unit belongs to one field.
    """
    said = []
    counting = [k for k, (column, texts) in enumerate(zip(columns, cells, strict=True)) if _numbers(column, texts)]
    if len(counting) == 1:
        column = columns[counting[0]]
        column.role = Role.INDEX
        last = len(set(cells[counting[0]])) - 1
        said.append(
            f"{column.name.capitalize()} counts from 0 to {last} in turn: it is taken for the index of the GPU."
        )
    watts = [k for k, column in enumerate(columns) if column.unit == "W"]
    if len(watts) == 1 and len({text for text in cells[watts[0]] if not is_missing(text)}) > 1:
        column = columns[watts[0]]
        said.append(f"{column.name.capitalize()}, the only one in W, changes: it is taken for power.draw.")
        column.name = "power.draw"
    return said


def _numbers(column: QueryColumn, cells: Sequence[str]) -> bool:
    """Whether cells without a unit count 0, 1, ... again and again, as indices of devices do, round after round."""
    count = len(set(cells))
    if column.role is not Role.FACT or not 1 < count <= _MOST_DEVICES or set(cells) != set(map(str, range(count))):
        return False
    numbers = [int(cell) for cell in cells]
    turns = sum((before + 1) % count == after for before, after in pairwise(numbers))
    return turns >= _LEAST_IN_TURN * (len(numbers) - 1)
