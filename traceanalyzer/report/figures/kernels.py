"""Which kernels take the time, and what limits them."""

from typing import Any

from traceanalyzer.cells import shortened
from traceanalyzer.passes.answer import Answer
from traceanalyzer.report.blocks import Figure
from traceanalyzer.report.figures.common import LEGEND, height_of, left_out, listed
from traceanalyzer.report.palette import DARK_GREY, OTHER, SYMBOLS, style_of
from traceanalyzer.report.scale import share_text, time_scale, time_text
from traceanalyzer.units import counted

MOST_POINTS = 400
UNKNOWN = "limit not known"
_NAME = 60
_DASHES = ("dot", "dash", "dashdot", "longdash")
SAME_ROOF = 0.03
"""Roofs that differ by less are one: the clocks of launches differ a little."""


def families(answer: Answer) -> Figure | None:
    """Kernel time of all devices by family, cut by what limits its kernels; those that are not listed are not known."""
    times: dict[str, dict[str, int]] = {}
    for row in answer.tables["kernels"].rows():
        of_family = times.setdefault(row["family"] or "other", {})
        limit = row["class"] or UNKNOWN
        of_family[limit] = of_family.get(limit, 0) + (row["total_ns"] or 0)
    wholes: dict[str, int] = {}
    for row in answer.tables["families"].rows():
        wholes[row["family"] or "other"] = wholes.get(row["family"] or "other", 0) + (row["total_ns"] or 0)
    for family, ns in wholes.items():
        of_family = times.setdefault(family, {})
        if (rest := ns - sum(of_family.values())) > 0:
            of_family[UNKNOWN] = of_family.get(UNKNOWN, 0) + rest
    ordered = sorted(times, key=lambda name: -sum(times[name].values()))
    whole = sum(ns for of_family in times.values() for ns in of_family.values())
    if not whole:
        return None
    scale = time_scale([sum(of_family.values()) for of_family in times.values()])
    limits = sorted({limit for of_family in times.values() for limit in of_family}, key=lambda c: (c == UNKNOWN, c))
    traces = []
    for limit in limits:
        values = [times[name].get(limit, 0) for name in ordered]
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": limit,
                "y": ordered,
                "x": scale.of(values),
                "marker": style_of(limit).marker,
                "text": [f"{time_text(ns)}, {share_text(ns / whole)}" for ns in values],
                "textposition": "none",
                "hovertemplate": "%{y}, %{fullData.name}<br>%{text} of the kernel time<extra></extra>",
            }
        )
    return Figure(
        "families",
        "Kernel time by family and by what limits it, all devices together",
        listed((name, share_text(sum(times[name].values()) / whole)) for name in ordered),
        traces,
        {
            "barmode": "stack",
            "xaxis": {"title": {"text": scale.unit}, "rangemode": "tozero"},
            "yaxis": {"autorange": "reversed", "type": "category", "automargin": True},
            "legend": LEGEND,
            "showlegend": True,
        },
        height=height_of(len(ordered), 20),
    )


def roofline(answer: Answer) -> Figure | None:
    """Operations a second against operations a byte: profiled kernels, else operators as estimated from shapes."""
    points = [_profiled(row) for row in answer.tables["kernels"].rows() if row["intensity"] and row["flop_per_s"]]
    measured = bool(points)
    if not points:
        points = [
            _estimated(row)
            for row in answer.tables["operators"].rows()
            if row["intensity"] and row["tflops"] and row["family"] != "communication"
        ]
    if not points:
        return None
    points.sort(key=lambda point: -point["ns"])
    shown = points[:MOST_POINTS]
    traces = _roofs(answer, shown)
    for limit in sorted({point["class"] for point in shown}, key=lambda c: (c == UNKNOWN, c)):
        mine = [point for point in shown if point["class"] == limit]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": limit,
                "x": [point["x"] for point in mine],
                "y": [point["y"] for point in mine],
                "text": [point["text"] for point in mine],
                "marker": {
                    "size": [point["size"] for point in mine],
                    "symbol": SYMBOLS.get(limit, "cross"),
                    "color": style_of(limit).color if limit != UNKNOWN else OTHER.color,
                    "line": {"width": 1, "color": "#ffffff"},
                },
                "hovertemplate": "%{text}<br>%{y:.4g} TFLOP/s at %{x:.4g} FLOP/byte<extra></extra>",
            }
        )
    how = "as profiled" if measured else "estimated from shapes and times of operators"
    return Figure(
        "roofline",
        f"Roofline: what is reached of the roofs ({how})",
        f"{counted(len(shown), 'point')}; the one with most time is {shown[0]['name']}, {shown[0]['y']:.4g} TFLOP/s at"
        f" {shown[0]['x']:.4g} FLOP/byte.",
        traces,
        {
            "xaxis": {"title": {"text": "FLOP/byte of device memory"}, "type": "log"},
            "yaxis": {"title": {"text": "TFLOP/s"}, "type": "log"},
            "legend": LEGEND,
            "showlegend": True,
        },
        height=420,
        note=left_out(len(shown), len(points), "points", "those that take most time"),
    )


def _profiled(row: dict[str, Any]) -> dict[str, Any]:
    ns = row["duration_ns"] or 0
    return {
        "x": row["intensity"],
        "y": row["flop_per_s"] / 1e12,
        "class": row["class"] or UNKNOWN,
        "ns": ns,
        "size": _size(ns),
        "name": shortened(row["kernel"] or "", _NAME),
        "text": f"{shortened(row['kernel'] or '', _NAME)}, {time_text(ns)}",
        "peak": None,
        "ridge": row["ridge"],
        "roof": None if row["roof_flop_per_s"] is None else row["roof_flop_per_s"] / 1e12,
    }


def _estimated(row: dict[str, Any]) -> dict[str, Any]:
    ns = row["total_ns"] or 0
    return {
        "x": row["intensity"],
        "y": row["tflops"],
        "class": row["class"] or UNKNOWN,
        "ns": ns,
        "size": _size(ns),
        "name": shortened(row["op"] or "", _NAME),
        "text": f"{row['op']} {shortened(row['shapes'] or '', _NAME)}, {time_text(ns)}",
        "peak": row["peak"],
        "ridge": row["ridge"],
        "roof": None,
    }


def _size(ns: int) -> float:
    """Size of a point: larger for what takes longer, but never lost."""
    return float(round(min(8 + 2.2 * max(len(str(max(ns, 1))) - 3, 0), 22), 1))


def _roofs(answer: Answer, points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lines of the roofs: of the first device whose peaks are known, else what the profiler states of the kernels."""
    low, high = min(point["x"] for point in points) / 4, max(point["x"] for point in points) * 4
    rows = list(answer.tables["peaks"].rows())
    first = [row for row in rows if (row["capture"], row["device"]) == (rows[0]["capture"], rows[0]["device"])]
    memory = next((row["value"] for row in first if row["peak"] == "memory"), None)
    if memory is not None:
        used = {point["peak"] for point in points}
        compute = [(row["peak"], row["value"]) for row in first if row["unit"] == "TFLOP/s" and row["peak"] in used]
        roofs = [(f"{name}: {value:,.0f} TFLOP/s", memory / 1e3, value) for name, value in compute]
        return [_roof(*roof, low, high, k) for k, roof in enumerate(roofs)]
    stated: list[tuple[float, float]] = []
    for point in points:
        if point["ridge"] and point["roof"]:
            slope = point["roof"] / min(point["x"], point["ridge"])
            top = slope * point["ridge"]
            if all(abs(top / other - 1) > SAME_ROOF for _, other in stated):
                stated.append((slope, top))
    return [
        _roof(f"peak that ncu states: {top:.3g} TFLOP/s", slope, top, low, high, k)
        for k, (slope, top) in enumerate(stated[:4])
    ]


def _roof(name: str, slope: float, top: float, low: float, high: float, place: int) -> dict[str, Any]:
    """A roof in TFLOP/s: `slope` TFLOP/s for each FLOP a byte, up to `top`."""
    ridge = top / slope
    at = [low, min(max(ridge, low), high), max(high, ridge)]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": at,
        "y": [min(x * slope, top) for x in at],
        "line": {"width": 1.5, "dash": _DASHES[place % len(_DASHES)], "color": DARK_GREY},
        "hovertemplate": "%{fullData.name}<extra></extra>",
    }
