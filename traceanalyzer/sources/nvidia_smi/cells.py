"""Cells of text: their numbers, with or without a unit, and the units that a name implies."""

import math
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.sources.telemetry import is_missing, number

NAN = math.nan
_WITH_UNIT = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))\s*([A-Za-z%°][\w/%()°]*)")
_STATES = {"active": 1.0, "not active": 0.0}
_P_STATE = re.compile(r"[Pp](\d{1,2})")
_MOST_KEPT = 100_000

_UNIT_OF_FIELD = (
    (re.compile(r"utilization\.\w+|fan\.speed|edpp_multiplier"), "%"),
    (re.compile(r"(?:enforced\.)?power\.(?:draw|limit|\w+_limit)(?:\.(?:average|instant))?|module\.power\.\S+"), "W"),
    (re.compile(r"temperature\.(?:gpu|memory)(?:\.tlimit)?"), "C"),
)
"""Units of fields of `--query-gpu` that have only one; others are known only where the file states them."""

UNIT_OF_MONITOR = {
    **dict.fromkeys(("sm", "mem", "enc", "dec", "jpg", "ofa", "pviol"), "%"),
    **dict.fromkeys(("gtemp", "mtemp", "temp"), "C"),
    **dict.fromkeys(("mclk", "pclk"), "MHz"),
    **dict.fromkeys(("fb", "bar1", "ccpm"), "MB"),
    **dict.fromkeys(("sbecc", "dbecc", "pci"), "errs"),
    **dict.fromkeys(("rxpci", "txpci"), "MB/s"),
    "pwr": "W",
    "tviol": "bool",
}
"""Units of the columns of dmon and pmon, for where the line of units is lost."""

LIMITS = {
    "%": (0.0, 100.0),
    "W": (0.0, 20_000.0),
    "C": (-100.0, 200.0),
    "MHz": (0.0, 100_000.0),
    "MiB": (0.0, float(1 << 24)),
    "MB": (0.0, float(1 << 24)),
}
"""What values of a unit can be on a GPU. Others are kept and said."""


def unit_of_field(name: str) -> str | None:
    """The unit of a field of `--query-gpu` where neither header nor cells tell it."""
    return next((unit for pattern, unit in _UNIT_OF_FIELD if pattern.fullmatch(name)), None)


def with_unit(text: str) -> tuple[float, str | None] | None:
    """A number and its unit, if it has one; None for other texts. `Active` is 1, `P8` is 8."""
    text = text.strip()
    if (plain := number(text)) is not None:
        return plain, None
    if m := _WITH_UNIT.fullmatch(text):
        value = number(m[1])
        return None if value is None else (value, m[2])
    if (state := _STATES.get(text.lower())) is not None:
        return state, None
    if m := _P_STATE.fullmatch(text):
        return float(m[1]), None
    return None


class Numbers(dict[str, float]):
    """Texts of one column as numbers, each looked at once; not a number where there is none.

    `unread` counts texts that are neither a number nor a word for none; `other_unit` those with another unit.
    """

    def __init__(self, unit: str | None) -> None:
        super().__init__()
        self.unit = unit
        self.unread = self.other_unit = 0

    def __missing__(self, text: str) -> float:
        if len(self) >= _MOST_KEPT:
            self.clear()
        found = with_unit(text)
        if found is None or (found[1] is not None and self.unit is not None and found[1] != self.unit):
            if not is_missing(text):
                self.unread += found is None
                self.other_unit += found is not None
                return NAN  # not kept, so that each is counted
            value = NAN
        else:
            value = found[0]
        self[text] = value
        return value

    def of(self, cells: Sequence[str]) -> NDArray[np.float64]:
        """A column of cells."""
        return np.fromiter(map(self.__getitem__, cells), np.float64, len(cells))

    def beyond(self, values: NDArray[np.float64]) -> int:
        """How many values cannot be in this unit."""
        limits = LIMITS.get(self.unit or "")
        return 0 if limits is None else int(((values < limits[0]) | (values > limits[1])).sum())
