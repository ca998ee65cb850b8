"""Memory of the devices over time."""

from typing import Any

from traceanalyzer.passes.answer import Answer
from traceanalyzer.report.blocks import Figure
from traceanalyzer.report.figures.common import LEGEND, Place, in_order, left_out, place_names, places_of
from traceanalyzer.report.palette import LINES
from traceanalyzer.report.scale import size_scale
from traceanalyzer.units import Unit, format_value

MOST_POINTS = 1_500
"""Points of a line. Of more, each stretch keeps its lowest and its highest, so that no peak is lost."""
MOST_DEVICES = 6
_DASHES = ("solid", "dash", "dashdot", "longdash", "longdashdot", "dot")
THINNED = "Of lines with more points than that can show, each stretch keeps its lowest and its highest."


def memory_curve(answer: Answer) -> Figure | None:
    """Allocated and reserved memory of each device over the time of its file."""
    frame = answer.tables["curve"]
    names = place_names(places_of(frame))
    curves: dict[Place, list[dict[str, Any]]] = {}
    for row in frame.rows():
        curves.setdefault((row["capture"], row["rank"], row["device"]), []).append(row)
    if not curves:
        return None
    # Two events at one instant are no curve.
    curves = {place: rows for place, rows in curves.items() if len({row["t_ns"] for row in rows}) > 1}
    if not curves:
        return None
    peaks = {place: max(_most(row) for row in rows) for place, rows in curves.items()}
    shown = sorted(peaks, key=lambda place: -peaks[place])[:MOST_DEVICES]
    scale = size_scale([row["reserved_bytes"] or row["allocated_bytes"] for place in shown for row in curves[place]])
    traces: list[dict[str, Any]] = []
    for k, place in enumerate(sorted(shown, key=in_order)):
        rows = sorted(curves[place], key=lambda row: int(row["t_ns"]))
        for column, width in (("allocated_bytes", 2.0), ("reserved_bytes", 1.0)):
            points = [(row["t_ns"] - rows[0]["t_ns"], row[column]) for row in rows if row[column] is not None]
            if not points:
                continue
            kept = thinned(points, MOST_POINTS)
            traces.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": f"{names[place]}, {column.removesuffix('_bytes')}",
                    "x": [round(t / 1e6, 4) for t, _ in kept],
                    "y": scale.of([size for _, size in kept]),
                    "line": {
                        "shape": "hv",
                        "dash": _DASHES[k % len(_DASHES)],
                        "width": width,
                        "color": LINES[k % len(LINES)],
                    },
                    "hovertemplate": f"%{{fullData.name}}<br>%{{y:.3f}} {scale.unit} at %{{x:.3f}} ms<extra></extra>",
                }
            )
    return Figure(
        "memory",
        "Memory of the devices over time",
        "Peaks: " + ", ".join(f"{names[place]} {format_value(peaks[place], Unit.BYTES)}" for place in shown),
        traces,
        {
            "xaxis": {"title": {"text": "ms after the first event"}},
            "yaxis": {"title": {"text": scale.unit}, "rangemode": "tozero"},
            "legend": LEGEND,
            "showlegend": True,
        },
        note=" ".join(
            [
                left_out(len(shown), len(curves), "devices", "those with the highest peaks") or "",
                THINNED if max(len(curves[place]) for place in shown) > MOST_POINTS else "",
            ]
        ).strip(),
    )


def _most(row: dict[str, Any]) -> int:
    """Memory in use; sources that know of reserved memory only tell that."""
    return int(row["reserved_bytes"] or 0) if row["allocated_bytes"] is None else int(row["allocated_bytes"])


def thinned(points: list[tuple[int, Any]], most: int) -> list[tuple[int, Any]]:
    """At most `most` points of a line, or two of each stretch where there are more: the lowest and the highest."""
    if len(points) <= most:
        return points
    each = -(-2 * len(points) // most)
    kept: list[tuple[int, Any]] = []
    for k in range(0, len(points), each):
        group = points[k : k + each]
        ends = {min(group, key=lambda point: point[1]), max(group, key=lambda point: point[1])}
        kept += sorted(ends)
    return kept
