"""What figures share: names of devices, bars that are stacked, and layouts of axes."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from traceanalyzer.cells import shortened
from traceanalyzer.passes.answer import Frame
from traceanalyzer.report.palette import style_of
from traceanalyzer.report.scale import Scale, share_text, time_text

MOST_ROWS = 64
"""Rows of a figure: more cannot be told apart. What is left out is said."""
ROW_HEIGHT, LEAST_HEIGHT, MOST_HEIGHT = 26, 170, 1_100
_MARGIN = 110
LEGEND = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"}
"""A legend above the figure, in the order of the traces."""

Place = tuple[Any, ...]


def height_of(rows: int, more: int = 0) -> int:
    """Height of a figure with that many rows and some lines of legend."""
    each = ROW_HEIGHT if rows <= 24 else 15
    return min(max(rows * each + _MARGIN + more, LEAST_HEIGHT), MOST_HEIGHT)


def in_order(place: Place) -> tuple[Any, ...]:
    """Where a device (capture, rank, device) stands: by its rank, those without one last."""
    capture, rank, device = place
    return rank is None, rank or 0, device or 0, capture


def places_of(frame: Frame) -> list[Place]:
    """The devices of a frame: (capture, rank, device), in the order in which they come."""
    return list(dict.fromkeys(zip(*(frame.columns[name] for name in ("capture", "rank", "device")), strict=True)))


def place_names(places: Collection[Place]) -> dict[Place, str]:
    """Names of devices by (capture, rank, device): as short as tells them apart."""
    ranks = [rank for _, rank, _ in places]
    by_rank = None not in ranks and len(set(ranks)) == len(places)
    by_device = len({device for *_, device in places}) == len(places)
    by_both = len({(rank, device) for _, rank, device in places}) == len(places)

    def name(capture: int, rank: int | None, device: int | None) -> str:
        if by_rank:
            return f"rank {rank}"
        of_rank = [] if rank is None else [f"rank {rank}"]
        parts = [*of_rank, f"device {device}"]
        return ", ".join(parts if by_device or by_both else [*parts, f"capture {capture}"])

    return {place: name(*place) for place in places}


def stacked_rows(
    rows: Sequence[str],
    parts: Mapping[str, Sequence[float]],
    scale: Scale,
    wholes: Sequence[float],
) -> list[dict[str, Any]]:
    """Bars of plotly.js that lie behind one another, a trace a part; `parts` has a value in ns for each row."""
    return [
        {
            "type": "bar",
            "orientation": "h",
            "name": part,
            "y": list(rows),
            "x": scale.of(values),
            "marker": style_of(part).marker,
            "text": [
                f"{time_text(v)}, {share_text(v / whole)}" if whole else ""
                for v, whole in zip(values, wholes, strict=True)
            ],
            "textposition": "none",
            "hovertemplate": "%{y}<br>%{fullData.name}: %{text}<extra></extra>",
        }
        for part, values in parts.items()
        if any(values)
    ]


def stacked_layout(title: str) -> dict[str, Any]:
    """The layout of such bars: the first row on top, the legend above."""
    return {
        "barmode": "stack",
        "bargap": 0.25,
        "xaxis": {"title": {"text": title}, "rangemode": "tozero"},
        "yaxis": {"autorange": "reversed", "type": "category", "automargin": True},
        "legend": LEGEND,
    }


def short_names(names: Sequence[str], width: int = 100) -> list[str]:
    """Names in at most about that many columns, and still told apart where they were."""
    out: list[str] = []
    for name in names:
        short = shortened(name, width)
        same = sum(each == short or each.startswith(f"{short} (") for each in out)
        out.append(f"{short} ({same + 1})" if same else short)
    return out


def listed(parts: Iterable[tuple[str, str]], most: int = 6) -> str:
    """Parts and their figures in a sentence: `compute 60.0 %, idle:python 30.4 %`."""
    texts = [f"{name} {figure}" for name, figure in parts]
    return ", ".join(texts[:most]) + (f" and {len(texts) - most} more" if len(texts) > most else "")


def left_out(shown: int, of: int, what: str, how: str) -> str | None:
    """Says what a figure leaves out; None where that is nothing."""
    return None if shown >= of else f"{shown:,} of {of:,} {what} are drawn: {how}."
