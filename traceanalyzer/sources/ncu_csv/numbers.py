"""How numbers are written in a file: the locale of the process that printed them, decided once for all of them.

`1.024` is 1024 in a German print and 1.024 in an English one, so no cell is read on its own. Every style that a cell
cannot be written in is ruled out; what that leaves open is decided by cells whose value is known beforehand.
"""

import re
from dataclasses import dataclass
from decimal import Decimal

_SPACES = "\u202f\u00a0\u2009 "
_APOSTROPHES = "'\u2019"
_MARKED = re.compile(r"[^0-9-]")
_LOOKS_NUMERIC = re.compile(rf"-?\d[\d.,{_APOSTROPHES}{_SPACES}]*(?<=\d)")
_POINT_IN_EVERY_LOCALE = re.compile(r"-?\d+\.(?:\d{1,2}|\d{4,})")
_BELOW_1000 = re.compile(r"-?\d{1,3}(?:[.,]\d+)?")
_EXPONENT = re.compile(r"-?\d+(?:\.\d+)?[eE][-+]?\d{1,4}")
_INSTANCES = re.compile(r"(-?\d[^()]*?) (\(.*\))", re.DOTALL)
_LONG_WITHOUT_GROUPS = re.compile(r"-?\d{4,}(?:[.,]\d+)?")
_MISSING = re.compile(r"(?:\(!\)\s*)?(?:-?nan(?:\(.*\))?|[-+]?inf(?:inity)?|n/a|no data|)", re.IGNORECASE)
_AMBIGUOUS_KEPT = 1000
_MOST_DIGITS = 18  # surely fit into 64 bits


@dataclass(frozen=True, slots=True)
class NumberStyle:
    """One way to write numbers: the characters that group thousands, and the decimal mark."""

    name: str
    groups: str
    mark: str

    def matches(self, text: str) -> bool:
        """Whether a number may be written so in this style."""
        return _pattern(self).fullmatch(text) is not None

    def read(self, text: str) -> Decimal | None:
        """The value of a text in this style; None where it is no number of it."""
        if not _MARKED.search(text):
            return _decimal(text)
        if not self.matches(text):
            return None
        for character in self.groups:
            text = text.replace(character, "")
        return _decimal(text.replace(self.mark, "."))


def _pattern(style: NumberStyle) -> re.Pattern[str]:
    if style.name not in _PATTERNS:
        group, mark = f"[{re.escape(style.groups)}]", re.escape(style.mark)
        # Two digits a group in front of the last one: Indian numbers.
        whole = rf"(?:\d+|[1-9]\d{{0,2}}(?:{group}\d{{2,3}})*{group}\d{{3}})"
        _PATTERNS[style.name] = re.compile(rf"-?{whole}(?:{mark}\d+)?")
    return _PATTERNS[style.name]


_PATTERNS: dict[str, re.Pattern[str]] = {}

POINT = NumberStyle("1,234.5", ",", ".")
STYLES = (
    POINT,
    NumberStyle("1.234,5", ".", ","),
    NumberStyle("1 234,5", _SPACES, ","),
    NumberStyle("1'234.5", _APOSTROPHES, "."),
    NumberStyle("1 234.5", _SPACES, "."),
)


def _decimal(text: str) -> Decimal | None:
    digits = text.removeprefix("-").replace(".", "", 1)
    return Decimal(text) if digits.isascii() and digits.isdigit() else None


def is_id(text: str) -> bool:
    """Whether a cell holds a plain number as of an ID, a process or a device, which no locale changes."""
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


def is_missing(text: str) -> bool:
    """Whether a cell says that there is no value: empty, n/a, no data, nan, inf, with or without `(!)`."""
    return not text[:1].isdigit() and _MISSING.fullmatch(text.strip()) is not None


def split_instances(text: str) -> tuple[str, str | None]:
    """A cell as its value and, where the metric has several instances, the list of theirs in brackets."""
    found = _INSTANCES.fullmatch(text) if text.endswith(")") else None
    return (found[1], found[2]) if found else (text, None)


def read_number(text: str, style: NumberStyle, mixed: bool) -> Decimal | None:
    """The number in a cell, None where there is none.

    In a `mixed` table the locale groups whole numbers only; decimals may keep a point whatever the locale.
    """
    if _MARKED.search(text):
        if mixed and _POINT_IN_EVERY_LOCALE.fullmatch(text):
            return Decimal(text)
        if _EXPONENT.fullmatch(text):
            return Decimal(text)
    return style.read(text)


def read_below_1000(text: str) -> Decimal | None:
    """A number that is always below 1000, such as an estimated speedup: a separator in it is its decimal mark."""
    return Decimal(text.replace(",", ".")) if text.isascii() and _BELOW_1000.fullmatch(text) else None


class StyleUndecidedError(Exception):
    """No style, or several that read a number differently; the text says which."""


class StyleFinder:
    """Sees the cells of a file and decides the style of its numbers."""

    def __init__(self) -> None:
        self._alive = list(STYLES)
        self._ungrouped = False
        self._ambiguous: dict[str, None] = {}
        self._conflict: str | None = None

    def see(self, text: str, unit: str, mixed: bool) -> None:
        """One cell of a table and its unit."""
        text, _ = split_instances(text)
        if not _MARKED.search(text):
            self._ungrouped = self._ungrouped or _LONG_WITHOUT_GROUPS.fullmatch(text) is not None
            return
        if not _LOOKS_NUMERIC.fullmatch(text):
            return
        if not mixed:
            self._ungrouped = self._ungrouped or _LONG_WITHOUT_GROUPS.fullmatch(text) is not None
        if mixed and _POINT_IN_EVERY_LOCALE.fullmatch(text):
            return
        fitting = [s for s in STYLES if s.matches(text) and not (unit == "%" and not mixed and _odd_percent(text, s))]
        if not fitting:
            return  # a version or another text of digits and points
        self._keep(fitting, text)
        if len({s.read(text) for s in fitting}) > 1 and len(self._ambiguous) < _AMBIGUOUS_KEPT:
            self._ambiguous[text] = None

    def see_known(self, text: str, value: int, mixed: bool) -> None:
        """A cell whose value is known from elsewhere in its row."""
        if mixed and _POINT_IN_EVERY_LOCALE.fullmatch(text):
            return  # such as the count of threads, which some pages print with six decimals
        fitting = [s for s in STYLES if s.read(text) == value]
        if fitting and _MARKED.search(text):
            self._keep(fitting, text)

    def _keep(self, fitting: list[NumberStyle], text: str) -> None:
        alive = [s for s in self._alive if s in fitting]
        if alive:
            self._alive = alive
        elif self._conflict is None:
            self._conflict = text

    def decide(self) -> NumberStyle:
        """The style of the file. Raises `StyleUndecidedError`."""
        if self._conflict is not None:
            raise StyleUndecidedError(f"its numbers are written in several ways, such as {self._conflict!r}")
        alive = self._alive
        if self._ungrouped:
            # Nothing is grouped in this file, so that a single separator is a decimal mark.
            alive = [s for s in alive if not any(self._groups(s, text) for text in self._ambiguous)] or alive
        for text in self._ambiguous:
            readings = sorted({f"{s.read(text)}" for s in alive}, key=len)
            if len(readings) > 1:
                raise StyleUndecidedError(f"{text!r} may be {' or '.join(readings)}, nothing in the file tells which")
        return alive[0]

    @staticmethod
    def _groups(style: NumberStyle, text: str) -> bool:
        return any(character in text for character in style.groups) and style.mark not in text


def _odd_percent(text: str, style: NumberStyle) -> bool:
    """Whether a percentage would have other than no or two decimals in a style: ncu prints no such."""
    _, mark, decimals = text.partition(style.mark)
    return bool(mark) and len(decimals) != 2
