"""What a verdict is: a name, a cost, evidence that can be traced, what would refute it, and what to change."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

COSTED_SHARE = 0.03
"""Share of the step from which on a cost makes a verdict."""


class Confidence(StrEnum):
    """How sure a verdict is, the surest first."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


def least_sure(*several: Confidence) -> Confidence:
    """The least of several."""
    return max(several, key=list(Confidence).index)


@dataclass(frozen=True, slots=True)
class Evidence:
    """One figure behind a verdict, and the command that shows it.

    `value` stands in the column `column` of the row of `table` whose cells are those of `row`, in the JSON of
    `command`; a `table` of "findings" means the finding of that code. `unit` is "ns", "share", or what the table says.
    """

    source: str
    value: float | int | str
    unit: str
    threshold: float | None
    command: str
    table: str
    column: str
    row: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "source": self.source,
            "value": self.value,
            "unit": self.unit,
            "threshold": self.threshold,
            "command": self.command,
            "table": self.table,
            "column": self.column,
            "row": self.row,
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """One item of the check-up. `cost_ns` is per counted step, None for a risk; `share` is of the step.

    `remarks` say what weakens it, or what it takes for granted.
    """

    name: str
    title: str
    cost_ns: int | None
    share: float | None
    confidence: Confidence
    evidence: tuple[Evidence, ...]
    experiment: str
    advice: tuple[str, ...]
    remarks: tuple[str, ...] = ()
