"""How long the steps took on the devices."""

from collections.abc import Sequence
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
    """Device steps in their order, busy and idle; of several devices the longest step of each number."""
    longest: dict[int, dict[str, Any]] = {}
    for row in answer.tables["steps"].rows():
        took = row["device_duration_ns"]
        if took is not None and (row["step"] not in longest or took > longest[row["step"]]["device_duration_ns"]):
            longest[row["step"]] = row
    if len(longest) < 2:
        return None
    rows = [longest[step] for step in sorted(longest)]
    each = -(-len(rows) // MOST_STEPS)
    drawn = [max(rows[k : k + each], key=lambda row: int(row["device_duration_ns"])) for k in range(0, len(rows), each)]
    devices = len({(row["capture"], row["device"]) for row in answer.tables["steps"].rows()})
    times = [row["device_duration_ns"] for row in drawn]
    counted = [row["device_duration_ns"] for row in rows if not row["warmup"] and not row["incomplete"]]
    middle = median(counted or times)
    scale = time_scale(times)
    longest_row = max(drawn, key=lambda row: int(row["device_duration_ns"]))
    return Figure(
        "steps",
        "Device steps" + (f": each the longest of {devices} devices" if devices > 1 else ""),
        f"{len(rows)} steps; the median of those that count takes {time_text(middle)}, the longest, step"
        f" {longest_row['step']}, {time_text(longest_row['device_duration_ns'])}.",
        [
            _bars("busy", drawn, [row["busy_ns"] for row in drawn], scale, Style(BLUE)),
            _bars("idle", drawn, [row["idle_ns"] for row in drawn], scale, Style(GREY, "/")),
        ],
        {
            "barmode": "stack",
            "bargap": 0.1,
            "xaxis": {"title": {"text": "step"}, "type": "category", "nticks": 20},
            "yaxis": {"title": {"text": scale.unit}, "rangemode": "tozero"},
            "legend": LEGEND,
        },
        note=None if each == 1 else f"A bar is the longest of {each} steps.",
    )


def _bars(
    name: str, rows: Sequence[dict[str, Any]], times: Sequence[int | None], scale: Scale, style: Style
) -> dict[str, Any]:
    return {
        "type": "bar",
        "name": name,
        "x": [str(row["step"]) for row in rows],
        "y": scale.of(times),
        "marker": style.marker,
        "text": [time_text(ns or 0) + _marks(row) for ns, row in zip(times, rows, strict=True)],
        "textposition": "none",
        "hovertemplate": "step %{x}<br>%{fullData.name} %{text}<extra></extra>",
    }


def _marks(row: dict[str, Any]) -> str:
    marks = [name for name in ("warmup", "incomplete", "outlier") if row[name]]
    rank = [] if row["rank"] is None else [f"rank {row['rank']}"]
    return f" ({', '.join([*rank, *marks])})" if rank or marks else ""
