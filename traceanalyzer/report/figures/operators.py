"""Which operators take the time on host and devices."""

from typing import Any

from traceanalyzer.passes.answer import Answer
from traceanalyzer.report.blocks import Figure
from traceanalyzer.report.figures.common import LEGEND, height_of, listed, short_names
from traceanalyzer.report.palette import BLUE, GREY, Style
from traceanalyzer.report.scale import time_scale, time_text

MOST = 15
_COLUMNS = (("device, its own", "device_self_ns", Style(BLUE)), ("host, its own", "host_self_ns", Style(GREY, "/")))


def operators(answer: Answer) -> Figure | None:
    """Time of the operators that take most, of their own, on the devices and on the host; all ranks together."""
    sums: dict[str, dict[str, int]] = {}
    for row in answer.tables["ops"].rows():
        of_op = sums.setdefault(row["op"], {"device_self_ns": 0, "host_self_ns": 0})
        for column in of_op:
            of_op[column] += row[column] or 0
    if not sums:
        return None
    ordered = sorted(sums, key=lambda op: (-sums[op]["device_self_ns"], -sums[op]["host_self_ns"]))[:MOST]
    labels = short_names(ordered)
    scale = time_scale([ns for op in ordered for ns in sums[op].values()])
    traces: list[dict[str, Any]] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": labels,
            "x": scale.of([sums[op][column] for op in ordered]),
            "marker": style.marker,
            "text": [time_text(sums[op][column]) for op in ordered],
            "textposition": "none",
            "hovertemplate": "%{y}<br>%{fullData.name}: %{text}<extra></extra>",
        }
        for name, column, style in _COLUMNS
    ]
    return Figure(
        "operators",
        f"The {len(ordered)} operators with most device time of their own, all ranks together",
        listed((label, time_text(sums[op]["device_self_ns"])) for label, op in zip(labels, ordered, strict=True)),
        traces,
        {
            "barmode": "group",
            "xaxis": {"title": {"text": scale.unit}, "rangemode": "tozero"},
            "yaxis": {"autorange": "reversed", "type": "category", "automargin": True},
            "legend": LEGEND,
        },
        height=height_of(len(ordered), 60),
    )
