"""Units as ncu prints them, in the spelling of any version, and what they are in base units."""

import re
from dataclasses import dataclass
from decimal import Decimal

_TIMES = {
    "second": Decimal(10**9),
    "s": Decimal(10**9),
    "msecond": Decimal(10**6),
    "ms": Decimal(10**6),
    "usecond": Decimal(10**3),
    "us": Decimal(10**3),
    "nsecond": Decimal(1),
    "ns": Decimal(1),
}
_PREFIXES = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_SCALED = re.compile(r"([KMGTP]?)(byte|bit|hz|Hz)")
_NANOSECONDS_A_SECOND = Decimal(10**9)


@dataclass(frozen=True, slots=True)
class BaseUnit:
    """A unit in base units, and the factor that brings a value there."""

    name: str
    factor: Decimal


def base_unit(printed: str) -> BaseUnit:
    """The base unit of a printed one: durations in ns, sizes in byte, clocks in Hz, rates a second.

    Steps are of 1000, also for sizes. Units that have no other spelling, such as inst or sector, stay as they are.
    """
    if printed not in _KNOWN:
        _KNOWN[printed] = _base_unit(printed)
    return _KNOWN[printed]


_KNOWN: dict[str, BaseUnit] = {}


def _base_unit(printed: str) -> BaseUnit:
    above, slash, below = printed.partition("/")
    if not slash:
        if above in _TIMES:
            return BaseUnit("ns", _TIMES[above])
        return _scaled(above)
    top = _scaled(above)
    if below in _TIMES:
        factor = top.factor * _NANOSECONDS_A_SECOND / _TIMES[below]
        return BaseUnit("Hz" if above == "cycle" else f"{top.name}/s", factor)
    bottom = _scaled(below)
    return BaseUnit(f"{top.name}/{bottom.name}", top.factor / bottom.factor)


def _scaled(name: str) -> BaseUnit:
    found = _SCALED.fullmatch(name)
    if not found:
        return BaseUnit(name, Decimal(1))
    return BaseUnit("Hz" if found[2] == "hz" else found[2], Decimal(_PREFIXES[found[1]]))
