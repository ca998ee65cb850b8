"""Floating-point operations of a launch, from the counters of its instructions.

Full sets of metrics have no counts but counts a cycle: the sum over the device divided by the average of the elapsed
cycles. Multiplied by those it is the count again, as exactly as both were printed.
"""

import re
from dataclasses import dataclass, field
from decimal import Decimal

_COUNTER = re.compile(
    r"(smsp|sm)__sass_thread_inst_executed_op_([fdh](?:add|mul|fma))_pred_on\.sum(\.per_cycle_elapsed)?"
)
_CYCLES = {"smsp__cycles_elapsed.avg": "smsp", "sm__cycles_elapsed.avg": "sm"}
_MOST_ERROR = Decimal("0.001")
"""Largest error of a count that is told, as a share of it."""
_WARP = Decimal(32)
"""An error that is always small enough: one instruction of a warp."""


@dataclass
class FlopCounters:
    """Collects the counters of additions, multiplications and fused ones in single, double and half precision."""

    _counts: dict[str, Decimal] = field(default_factory=dict)
    _rates: dict[tuple[str, str], Decimal] = field(default_factory=dict)
    _cycles: dict[str, Decimal] = field(default_factory=dict)
    _incomplete: bool = False

    def take(self, name: str, value: Decimal) -> None:
        """A metric by its name; others than those needed are left out."""
        if name in _CYCLES:
            self._cycles.setdefault(_CYCLES[name], value)
        elif "_op_" in name and (found := _COUNTER.fullmatch(name)):
            if found[3]:
                self._rates.setdefault((found[1], found[2]), value)
            else:
                self._counts.setdefault(found[2], value)

    def lack(self, name: str) -> None:
        """A metric that has no number: without one of its parts there is no sum."""
        self._incomplete |= "_op_" in name and _COUNTER.fullmatch(name) is not None

    def total(self, exact: bool) -> float | None:
        """Operations; None without counters, or where they were printed with too few digits. `exact` ones have all."""
        if self._incomplete:
            return None
        if self._counts:
            return float(sum(value * _weight(kind) for kind, value in self._counts.items()))
        # Where both units count, they count the same operations.
        unit = next((unit for unit, _ in self._rates if unit in self._cycles), None)
        if unit is None:
            return None
        cycles, flop, error = self._cycles[unit], Decimal(0), Decimal(0)
        for kind, rate in ((kind, rate) for (by, kind), rate in self._rates.items() if by == unit):
            flop += rate * cycles * _weight(kind)
            error += (_rounding(rate) * cycles + _rounding(cycles) * rate) * _weight(kind)
        if not exact and error > max(flop * _MOST_ERROR, _WARP):
            return None
        return float(round(flop))


def _weight(kind: str) -> int:
    return 2 if kind.endswith("fma") else 1


def _rounding(value: Decimal) -> Decimal:
    """How much a printed value may be off: half of its last decimal; whole numbers are exact."""
    exponent = value.as_tuple().exponent
    return Decimal(5).scaleb(exponent - 1) if isinstance(exponent, int) and exponent < 0 else Decimal(0)
