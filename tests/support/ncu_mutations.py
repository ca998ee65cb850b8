"""Real pages of ncu, rewritten as ncu of another locale, age or unit setting prints them."""

import csv
import gzip
import io
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from pathlib import Path

from tests.support.ncu_writer import line
from tests.support.real_traces import PUBLIC, TRACES

HEADER = re.compile(r'^.*?("ID","Process ID"|"Process ID","Process Name"|"Domain","Range:)', re.MULTILINE)
IDENTIFYING = (
    "Context",
    "Stream",
    "Block Size",
    "Grid Size",
    "Device",
    "CC",
    "Host Name",
    "Process Name",
    "Kernel Name",
)
SUMMARY = ("Invocations", "Minimum", "Maximum", "Average")
_NUMBER = re.compile(r"(-?)(\d+)(?:\.(\d+))?( \(.*\))?", re.DOTALL)
_KEPT = re.compile(
    r"launch__|gpu__|dram__bytes|.*_op_[fdh](add|mul|fma)_pred_on\.sum|.*cycles_elapsed\.avg$|.*pipe_tensor|.*throughput\.avg"
    r"|.*hit_rate|sm__warps_active|sm__maximum|device__attribute_(display|multip|total|max_gpu|compute)"
)
_GROUPED = {
    "details_base_rtx3070_de_DE.csv": (".", ","),
    "details_auto_rtx3070_fr_FR.csv": (" ", ","),
    "raw_auto_rtx3070_en_US.csv": (",", "."),
    "details_t4_numba_copy_thousands.csv": (",", "."),
    "metrics_nvtx_paddle_tensor_dump.csv": (",", "."),
    "metrics_nvtx_torch_program_output.txt": (",", "."),
}
_MOST_ROWS, _MOST_LAUNCHES, _MOST_METRICS = 110, 2, 40
_PRINTED = re.compile(r"-?[\d., ]*\d")
LOCALES = {
    "en_US": (",", ".", (3,)),
    "en_IN": (",", ".", (3, 2)),
    "de_DE": (".", ",", (3,)),
    "fr_FR": ("\u202f", ",", (3,)),
    "fr_FR old": ("\u00a0", ",", (3,)),
    "fr_FR spaces": (" ", ",", (3,)),
    "de_CH": ("'", ".", (3,)),
    "de_CH new": ("\u2019", ".", (3,)),
    "en_ZA": ("\u00a0", ".", (3,)),
    "pt_PT": ("", ",", (3,)),
}
_OLD_TIMES = {"nsecond": "ns", "usecond": "us", "msecond": "ms", "second": "s"}
_CLOCKS = {"cycle/second": "hz", "cycle/msecond": "Khz", "cycle/usecond": "Mhz", "cycle/nsecond": "Ghz"}
_TIME_FACTORS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_STEPS = {"T": 10**12, "G": 10**9, "M": 10**6, "K": 10**3, "": 1}


@dataclass(frozen=True)
class Page:
    """A table as ncu of the C locale prints it. `units` is the second row of a wide one.

    `shortened` says that the file has more launches, and that the last one here may lack rows.
    """

    header: tuple[str, ...]
    units: tuple[str, ...] | None
    rows: tuple[tuple[str, ...], ...]
    shortened: bool = False

    @property
    def wide(self) -> bool:
        return "Metric Name" not in self.header

    @property
    def summary(self) -> bool:
        return "Invocations" in self.header

    @property
    def first_metric(self) -> int:
        """Position of the first metric of a wide page."""
        known = ("ID", "Process ID", "Kernel Time", *IDENTIFYING)
        return max(k for k, name in enumerate(self.header) if name in known or "Range:" in name) + 1

    def where(self, name: str) -> int:
        return self.header.index(name)

    def number_columns(self) -> list[int]:
        """Positions of the columns whose numbers follow the locale."""
        if self.wide:
            return list(range(self.first_metric, len(self.header)))
        return [k for k, name in enumerate(self.header) if name in (*SUMMARY, "Metric Value")]

    def lines(self) -> list[str]:
        return [line(self.header), *([line(self.units)] if self.units else []), *(line(row) for row in self.rows)]

    def text(self) -> str:
        return "\n".join([*self.lines(), ""])

    def map_cells(self, columns: Sequence[int], change: Callable[[str], str]) -> "Page":
        chosen = set(columns)
        rows = tuple(tuple(change(c) if k in chosen else c for k, c in enumerate(row)) for row in self.rows)
        return replace(self, rows=rows)


def real_pages() -> list[Path]:
    """Every readable page with a table of metrics."""
    files = sorted(PUBLIC.glob("ncu/*")) + sorted(TRACES.glob("ncu/*/*"))
    return [p for p in files if p.suffix != ".json" and "rep" not in p.suffixes[0] and HEADER.search(_content(p))]


def _content(path: Path) -> str:
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8", "replace")


@lru_cache(None)
def page_of(path: Path) -> Page:
    """The page of a file without what stands around it: in the C locale, and of large ones the first launches."""
    text = _content(path)
    found = HEADER.search(text)
    assert found is not None
    header, *records = csv.reader(io.StringIO(text[found.start(1) :]))
    page = Page(tuple(header), None, ())
    last = page.where("Average" if page.summary else "Metric Value") if not page.wide else len(header) - 1
    fitting = [tuple(r) for r in records if last < len(r) <= len(header) and (page.wide or r[0])]
    units = next((r for r in fitting if page.wide and not r[0]), None)
    rows = [r for r in fitting if r[0] and (page.summary or r[0].isdigit())]
    most = _MOST_LAUNCHES if page.wide else _MOST_ROWS
    page = replace(page, units=units, rows=tuple(rows[:most]), shortened=len(rows) > most)
    page = _narrowed(page) if page.wide else page
    columns = [*page.number_columns(), *(k for k, name in enumerate(page.header) if name == "Estimated Speedup")]
    if path.name in _GROUPED:
        group, mark = _GROUPED[path.name]
        page = page.map_cells(columns, lambda cell: _plain(cell, group, mark))
    return page


def _narrowed(page: Page) -> Page:
    """With the metrics that mean something to the reader, and some of the others."""
    first, step = page.first_metric, len(page.header) // _MOST_METRICS + 1
    kept = [k for k, name in enumerate(page.header) if k < first or k % step == 0 or _KEPT.match(name)]
    rows = tuple(tuple(row[k] for k in kept) for row in page.rows)
    units = page.units and tuple(page.units[k] for k in kept)
    return replace(page, header=tuple(page.header[k] for k in kept), units=units, rows=rows)


def _plain(cell: str, group: str, mark: str) -> str:
    return cell.replace(group, "").replace(mark, ".") if _PRINTED.fullmatch(cell) else cell


def localised(cell: str, locale: str, mixed: bool) -> str:
    """A number of the C locale as another prints it: in `mixed` tables those with six decimals keep their point."""
    found = _NUMBER.fullmatch(cell)
    group, mark, sizes = LOCALES[locale]
    if not found or (mixed and len(found[3] or "") > 2):
        return cell
    head, groups, size = found[2], [], list(sizes)
    while group and len(head) > size[0]:
        head, part = head[: -size[0]], head[-size[0] :]
        groups.insert(0, part)
        size = size[1:] or size
    whole = group.join([head, *groups])
    return found[1] + whole + (mark + found[3] if found[3] else "") + (found[4] or "")


def in_locale(page: Page, locale: str, speedups: bool = True) -> Page:
    """The page as a process of another locale prints it; whether estimates of rules follow it is not known."""
    columns = page.number_columns()
    out = page.map_cells(columns, lambda cell: localised(cell, locale, page.wide or page.summary))
    if speedups and "Estimated Speedup" in page.header:
        out = out.map_cells([page.where("Estimated Speedup")], lambda cell: localised(cell, locale, mixed=False))
    return out


def _respelled(unit: str, new: bool) -> str:
    times = _OLD_TIMES if new else {v: k for k, v in _OLD_TIMES.items()}
    clocks = _CLOCKS if new else {v: k for k, v in _CLOCKS.items()}
    if unit in clocks:
        return clocks[unit]
    above, slash, below = unit.rpartition("/")
    return f"{above}{slash}{times.get(below, below)}"


def respelled(page: Page, new: bool) -> Page:
    """The units as versions from 2025 on, or those before, spell them."""
    if page.wide:
        return replace(page, units=page.units and tuple(_respelled(u, new) for u in page.units))
    return page.map_cells([page.where("Metric Unit")], lambda unit: _respelled(unit, new))


def _split_unit(unit: str) -> tuple[str, int, str] | None:
    """(family, factor, what follows) of the unit of a duration, or of bytes, a block or a second."""
    short = _respelled(unit, new=True)
    if short in _TIME_FACTORS:
        return "time", _TIME_FACTORS[short], ""
    found = re.fullmatch(r"([TGMK]?)byte(/block|/s)?", short)
    return ("byte", _STEPS[found[1]], found[2] or "") if found else None


def _units_of(family: str, tail: str) -> dict[int, str]:
    """Units by factor, largest first."""
    if family == "time":
        return {factor: unit for unit, factor in _TIME_FACTORS.items()}
    return {factor: f"{prefix}byte{tail}" for prefix, factor in _STEPS.items()}


def _rescaled(cells: Sequence[str], unit: str, auto: bool, decimals: int) -> tuple[list[str], str]:
    """Values of one unit in the base unit or a larger one, where they stay what they are; else as they were."""
    parts = _split_unit(unit)
    numbers = [_NUMBER.fullmatch(c) for c in cells]
    if parts is None or not all(numbers):
        return list(cells), unit
    family, factor, tail = parts
    base = [Decimal(c) * factor for c in cells]
    choices = _units_of(family, tail).items() if auto else [(1, _units_of(family, tail)[1])]
    for step, name in choices:
        values = [v / step for v in base]
        if all(v == round(v, decimals) and (step == 1 or abs(v) >= 1) for v in values):
            return [_digits(v, decimals, family == "byte" and step == 1) for v in values], name
    return list(cells), unit


def _digits(value: Decimal, decimals: int, whole: bool) -> str:
    return f"{value:.0f}" if whole and value == value.to_integral_value() else f"{value:.{decimals}f}"


def rescaled(page: Page, auto: bool) -> Page:
    """Durations and bytes in base units, or in those that `--print-units auto` may choose."""
    if page.summary:
        return page
    if not page.wide:
        value, unit = page.where("Metric Value"), page.where("Metric Unit")
        rows = []
        for row in page.rows:
            cells = list(row)
            (cells[value],), cells[unit] = _rescaled([row[value]], row[unit], auto, 2)
            rows.append(tuple(cells))
        return replace(page, rows=tuple(rows))
    units, columns = list(page.units or ()), [list(c) for c in zip(*page.rows, strict=True)]
    for k in range(page.first_metric, len(page.header)):
        columns[k], units[k] = _rescaled(columns[k], units[k], auto, 6 if auto else 2)
    return replace(page, units=tuple(units), rows=tuple(zip(*columns, strict=True)))


def blanked(page: Page, chosen: Callable[[int, str], bool]) -> Page:
    """Without the units of chosen metrics: by number of the row, or of the column of a wide page, and name."""
    if page.wide:
        names = enumerate(zip(page.header, page.units or (), strict=True))
        return replace(page, units=tuple("" if chosen(k, name) else unit for k, (name, unit) in names))
    name, unit = page.where("Metric Name"), page.where("Metric Unit")
    rows = [
        tuple("" if p == unit and chosen(k, row[name]) else c for p, c in enumerate(row))
        for k, row in enumerate(page.rows)
    ]
    return replace(page, rows=tuple(rows))


def reordered(page: Page, seed: int) -> Page:
    """With other places of what identifies a launch, of section, metric and unit, or of the metrics of a wide page."""
    dice = random.Random(seed)
    order = list(range(len(page.header)))
    groups = [[k for k, name in enumerate(page.header) if name in IDENTIFYING[:6]]]
    groups.append(
        list(range(page.first_metric, len(order)))
        if page.wide
        else [k for k, name in enumerate(page.header) if name in ("Section Name", "Metric Name", "Metric Unit")]
    )
    for group in groups:
        mixed = dice.sample(group, len(group))
        for place, source in zip(group, mixed, strict=True):
            order[place] = source
    return replace(
        page,
        header=tuple(page.header[k] for k in order),
        units=page.units and tuple(page.units[k] for k in order),
        rows=tuple(tuple(row[k] for k in order if k < len(row)) for row in page.rows),
    )
