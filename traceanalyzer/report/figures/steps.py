"""How long the steps took on the devices."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from traceanalyzer.passes.answer import Answer
from traceanalyzer.report.blocks import Figure
from traceanalyzer.report.figures.common import LEGEND
from traceanalyzer.report.palette import BLUE, GREY, Style
from traceanalyzer.report.scale import Scale, time_scale, time_text

MOST_STEPS = 400
"""Steps that are drawn one by one; of more, neighbours share a bar: that of the longest of them."""


def step_times(answer: Answer) -> Figure | None:
    """Device steps in their order, busy and idle; of several devices the mean, and how long the longest is."""
    by_step: dict[int, list[dict[str, Any]]] = {}
    for row in answer.tables["steps"].rows():
        if row["device_duration_ns"] is not None:
            by_step.setdefault(row["step"], []).append(row)
    if len(by_step) < 2:
        return None
    steps = [_Step(number, by_step[number]) for number in sorted(by_step)]
    each = -(-len(steps) // MOST_STEPS)
    drawn = [max(steps[k : k + each], key=lambda step: step.longest_ns) for k in range(0, len(steps), each)]
    devices = max(len(step.rows) for step in steps)
    longest = max(steps, key=lambda step: step.longest_ns)
    middle = median([step.longest_ns for step in steps if step.counts] or [step.longest_ns for step in steps])
    scale = time_scale([step.mean("device_duration_ns") for step in drawn])
    return Figure(
        "steps",
        "Device steps" + (f": the mean of {devices} devices" if devices > 1 else ""),
        f"{len(steps)} steps; the median of those that count takes {time_text(middle)}, the longest, step"
        f" {longest.number}, {time_text(longest.longest_ns)}.",
        [_bars("busy", drawn, scale, Style(BLUE)), _bars("idle", drawn, scale, Style(GREY, "/"))],
        {
            "barmode": "stack",
            "bargap": 0.1,
            "xaxis": {"title": {"text": "step"}, "type": "category", "nticks": 20},
            "yaxis": {"title": {"text": scale.unit}, "rangemode": "tozero"},
            "legend": LEGEND,
        },
        note=None if each == 1 else f"A bar is the longest of {each} steps.",
    )


@dataclass(frozen=True, slots=True)
class _Step:
    number: int
    rows: list[dict[str, Any]]

    @property
    def longest_ns(self) -> int:
        return max(int(row["device_duration_ns"]) for row in self.rows)

    @property
    def counts(self) -> bool:
        return not any(row["warmup"] or row["incomplete"] for row in self.rows)

    def mean(self, column: str) -> float:
        """Mean of a time over the devices."""
        return sum(row[column] or 0 for row in self.rows) / len(self.rows)

    @property
    def remark(self) -> str:
        """What is special about it, in words."""
        marks = [name for name in ("warmup", "incomplete", "outlier") if any(row[name] for row in self.rows)]
        if len(self.rows) > 1:
            row = max(self.rows, key=lambda row: int(row["device_duration_ns"]))
            whose = f"device {row['device']}" if row["rank"] is None else f"rank {row['rank']}"
            marks.append(f"longest on {whose}: {time_text(self.longest_ns)}")
        return f" ({', '.join(marks)})" if marks else ""


def _bars(name: str, steps: Sequence[_Step], scale: Scale, style: Style) -> dict[str, Any]:
    times = [step.mean(f"{name}_ns") for step in steps]
    return {
        "type": "bar",
        "name": name,
        "x": [str(step.number) for step in steps],
        "y": scale.of(times),
        "marker": style.marker,
        "text": [time_text(ns) + step.remark for ns, step in zip(times, steps, strict=True)],
        "textposition": "none",
        "hovertemplate": "step %{x}<br>%{fullData.name} %{text}<extra></extra>",
    }
