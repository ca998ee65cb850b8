"""What the columns of a `--query-...` table are: times, devices, processes, metrics, or facts."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from traceanalyzer.sources.nvidia_smi.cells import LIMITS, unit_of_field, with_unit
from traceanalyzer.sources.telemetry import is_missing

_LONGEST_NAME = 120
_NAME = re.compile(r"[A-Za-z](?:(?!--)[^=])*")
_HEADED = re.compile(r"(?P<name>[^\[\]]*?)\s*(?:\[(?P<unit>[^\]]*)\])?")
_FIELD = re.compile(
    r"(?:utilization|memory|temperature|power|clocks(?:_throttle_reasons|_event_reasons(?:_counters)?)?|pcie\.link|pci"
    r"|ecc\.(?:mode|errors)|fan|mig\.mode|encoder\.stats|enforced\.power|remapped_rows|retired_pages|driver_model"
    r"|display|accounting|inforom)\.[\w.]+"
    r"|pstate|gpu_uuid|gpu_bus_id|gpu_name|used_gpu_memory|used_memory|driver_version|persistence_mode|compute_mode"
)
_TITLE = re.compile(r"name|uuid|index|count|serial|compute_cap|pid|process_name|timestamp|vbios_version")
_WRAPPED = re.compile(
    r"gpu[_ .]?(?:util\w*|mem\w*|temp\w*|power\w*|clock\w*)|(?:mem|memory)[_ ](?:used|total|free|util)"
    r"|power[_ ]draw|temperature[_ ]gpu|utilization[_ ]gpu",
    re.IGNORECASE,
)
_TIMES = re.compile(r"time_?stamp|time|date_?time|ts|date|unix_?time|epoch", re.IGNORECASE)
_UUIDS = re.compile(r"(?:gpu_)?uuid", re.IGNORECASE)
_BUSES = re.compile(r"pci\.bus_id|gpu_bus_id|(?:pci_)?bus_?id", re.IGNORECASE)
_NAMES = re.compile(r"name|gpu_name|gpu[_ ]?model|product_name", re.IGNORECASE)
_INDICES = re.compile(r"index|gpu|gpu[_ ]?(?:index|id|idx)|device(?:[_ ]?(?:index|id))?|idx", re.IGNORECASE)
_FACTS = re.compile(
    r"(?:driver|kmd|cuda|vbios|gsp\w*)_version|gsp\.\w+|serial|gpu_serial|count|pci\.\w+|board_id|minor_number|vgpu\w*\.\S+"
    r"|compute_cap|inforom\.\w+|fabric\.\S+|platform\.\S+|\w*part_number|module_id|gpu_recovery_action|hostname|accounting\.\w+|retired_pages\.(?:address|timestamp|cause)",
    re.IGNORECASE,
)
"""Numbers that identify and are no measurement."""
_UTILISATION = re.compile(r"util|usage", re.IGNORECASE)


class Role(Enum):
    """What a column is for."""

    DATE = auto()
    TIME = auto()
    UUID = auto()
    BUS = auto()
    NAME = auto()
    INDEX = auto()
    PID = auto()
    COMMAND = auto()
    METRIC = auto()
    FACT = auto()


@dataclass(slots=True)
class QueryColumn:
    """A column: its name without its unit, what it is for, and the unit that its header states."""

    name: str
    unit: str | None
    role: Role
    stated: bool = False
    """Whether the file itself states the unit."""


def cells_of_header(line: str, separator: str) -> list[str]:
    """Names and units of a header, as printed."""
    return [cell.strip().strip('"') for cell in line.split(separator)]


def separator_of(line: str) -> str | None:
    """What parts the cells of a header: the sign that leaves most names of fields whole."""
    counts = {sign: sum(_is_field(cell) for cell in cells_of_header(line, sign)) for sign in (",", ";", "\t", "|")}
    best = max(counts, key=lambda sign: counts[sign])
    return best if counts[best] else None


def is_header(line: str) -> str | None:
    """The separator of a line that heads a table of `--query-...`, or of a script around it; None for others."""
    if len(line) > 1 << 16 or (separator := separator_of(line)) is None:
        return None
    cells = cells_of_header(line, separator)
    if max(map(len, cells)) > _LONGEST_NAME:
        return None
    names = [_headed(cell)[0] for cell in cells]
    if any(with_unit(cell) is not None or not cell for cell in cells[:-1]) or not all(
        _NAME.fullmatch(n) for n in names if n
    ):
        return None
    fields = sum(_FIELD.fullmatch(name) is not None for name in names)
    known = sum(_is_field(cell) or _TIMES.fullmatch(name) is not None for cell, name in zip(cells, names, strict=True))
    alone = fields == len(names) and (len(names) > 1 or _headed(cells[0])[1] is not None)
    return separator if (fields and (known >= 2 or alone)) or _is_wrapped(names) else None


def _is_wrapped(names: Sequence[str]) -> bool:
    """Whether names are those of a script's own: a time and values of a GPU."""
    return any(map(_TIMES.fullmatch, names)) and any(map(_WRAPPED.fullmatch, names))


def _is_field(cell: str) -> bool:
    name = _headed(cell)[0]
    return any(pattern.fullmatch(name) for pattern in (_FIELD, _TITLE, _WRAPPED))


def _headed(cell: str) -> tuple[str, str | None]:
    m = _HEADED.fullmatch(cell.strip()) if len(cell) <= _LONGEST_NAME else None
    return (cell.strip(), None) if m is None else (m["name"], m["unit"] or None)


def columns_of(cells: Sequence[str]) -> list[QueryColumn]:
    """The columns of a header, as far as it tells; `settle` decides with the first rows."""
    named = [_headed(cell) for cell in cells]
    lower = [name.lower() for name, _ in named]
    out: list[QueryColumn] = []
    for name, unit in named:
        role = _role(name.lower(), unit, {column.role for column in out}, "pid" in lower)
        if name.lower() == "date" and "time" in lower:
            role = Role.DATE
        out.append(QueryColumn(name, unit, role, stated=unit is not None))
    return out


def _role(name: str, unit: str | None, taken: set[Role], processes: bool) -> Role:
    if unit is None:
        for role, pattern in ((Role.TIME, _TIMES), (Role.UUID, _UUIDS), (Role.BUS, _BUSES), (Role.NAME, _NAMES)):
            if role not in taken and pattern.fullmatch(name):
                return role
        if _INDICES.fullmatch(name):
            return Role.INDEX
        if name == "pid":
            return Role.PID
        if processes and name in ("process_name", "name", "command", "process"):
            return Role.COMMAND
        if _FACTS.fullmatch(name):
            return Role.FACT
        return Role.METRIC
    return Role.METRIC


def settle(columns: list[QueryColumn], cells: Sequence[Sequence[str]]) -> list[str]:
    """Decides with the first rows what header alone does not tell. Returns names whose unit is a guess of their range.

    Of several columns that may number devices, the first one that counts them does; one that does not count is a fact,
    or a metric.
    """
    indices = [k for k, column in enumerate(columns) if column.role is Role.INDEX]
    counting = [k for k in indices if _counts(cells[k])]
    chosen = next((k for k in counting if len(set(cells[k])) > 1), next(iter(counting), None))
    for k in indices:
        if k != chosen:
            columns[k].role = Role.FACT if _counts(cells[k]) else Role.METRIC
    guessed: list[str] = []
    for column, column_cells in zip(columns, cells, strict=True):
        if column.role is not Role.METRIC:
            continue
        values = [v for v in map(with_unit, column_cells) if v is not None]
        units = {unit for _value, unit in values if unit}
        if (
            not values
            and not column.stated
            and not (all(map(is_missing, column_cells)) and (unit_of_field(column.name) or _is_measured(column.name)))
        ):
            column.role = Role.FACT
        elif column.unit is None and len(units) == 1:
            column.unit, column.stated = units.pop(), True
        elif column.unit is None and (unit := unit_of_field(column.name)):
            low, high = LIMITS.get(unit, (float("-inf"), float("inf")))
            column.unit = unit if all(low <= value <= high for value, _unit in values) else None
        elif column.unit is None and values and (unit := _guess(column.name, [v for v, _ in values])):
            column.unit = unit
            guessed.append(f"{column.name} [{unit}]")
    return guessed


def _is_measured(name: str) -> bool:
    """Whether a field without a unit is one that is measured: then no value is an answer, too."""
    return (
        re.match(r"ecc\.errors|pcie\.link|clocks_\w+_reasons|remapped_rows|retired_pages|encoder\.|pstate", name)
        is not None
    )


def _counts(cells: Sequence[str]) -> bool:
    """Whether a column holds small whole numbers that come about equally often, as those of devices do."""
    numbers = {cell.strip() for cell in cells if not is_missing(cell)}
    if not numbers or not all(n.isascii() and n.isdigit() and len(n) < 5 for n in numbers):
        return False
    each = len(cells) / len(numbers)
    counts = [sum(cell.strip() == n for cell in cells) for n in numbers] if len(numbers) <= 64 else [0]
    return min(counts) >= each / 2 - 1 and max(counts) <= 2 * each + 1


def _guess(name: str, values: Sequence[float]) -> str | None:
    if _UTILISATION.search(name) and all(0 <= v <= 100 for v in values):
        return "%" if max(values) > 1 or all(v == int(v) for v in values) else None
    return None
