"""One step of some devices, on one clock."""

from typing import Any

from traceanalyzer.passes.scope import DeviceOfCapture
from traceanalyzer.passes.step_picture import StepPicture, Stretch
from traceanalyzer.report.blocks import Figure
from traceanalyzer.report.figures.common import LEGEND, height_of, listed
from traceanalyzer.report.palette import style_of
from traceanalyzer.report.scale import Scale, share_text, time_scale, time_text


def step_figure(picture: StepPicture, names: dict[DeviceOfCapture, str], kind: str, title: str) -> Figure:
    """The stretches of a step as bars: a row a device, or, of one device, a row a category."""
    scale = time_scale([picture.length_ns])
    alone = len(picture.stretches) == 1
    rows: dict[str, list[tuple[str, Stretch]]] = {}
    sums: dict[str, int] = {}
    for device, stretches in picture.stretches.items():
        for each in stretches:
            row = each.category if alone else names[device]
            rows.setdefault(each.category, []).append((row, each))
    for of_device in picture.sums.values():
        for category, ns in of_device.items():
            sums[category] = sums.get(category, 0) + ns
    whole = sum(sums.values())
    order = sorted(rows, key=lambda c: (c.startswith("idle:"), -sums[c]))
    traces = [_trace(category, rows[category], scale) for category in order]
    ys = order if alone else [names[device] for device in picture.stretches]
    return Figure(
        f"step-{kind}",
        title,
        f"Step {picture.step} takes {time_text(picture.length_ns)}: "
        + listed((c, share_text(sums[c] / whole)) for c in sorted(sums, key=lambda c: -sums[c])),
        traces,
        {
            "barmode": "overlay",
            "bargap": 0.25,
            "xaxis": {
                "title": {"text": f"{scale.unit} in step {picture.step}"},
                "range": [0, picture.length_ns / scale.size],
            },
            "yaxis": {
                "autorange": "reversed",
                "type": "category",
                "automargin": True,
                "categoryorder": "array",
                "categoryarray": ys,
            },
            "legend": LEGEND,
            "showlegend": not alone,
        },
        height=height_of(len(ys), 0 if alone else 40),
        note=f"Drawn in points of {time_text(picture.point_ns)}: each shows the category that takes most of that time."
        + ("" if picture.is_aligned else " The clocks of some devices cannot be compared: each of these begins at 0."),
    )


def _trace(category: str, stretches: list[tuple[str, Stretch]], scale: Scale) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "name": category,
        "y": [row for row, _ in stretches],
        "base": scale.of([each.start_ns for _, each in stretches]),
        "x": scale.of([each.end_ns - each.start_ns for _, each in stretches]),
        "marker": style_of(category).marker,
        "text": [
            f"{time_text(each.end_ns - each.start_ns)} from {time_text(each.start_ns)} on"
            + (f", {each.blame}" if each.blame else "")
            for _, each in stretches
        ],
        "textposition": "none",
        "hovertemplate": "%{y}<br>%{fullData.name}: %{text}<extra></extra>",
    }
