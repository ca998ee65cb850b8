"""Which ranks wait, which are late, and how fast they communicate."""

from typing import Any

from traceanalyzer.passes.answer import Answer
from traceanalyzer.report.blocks import Figure
from traceanalyzer.report.figures.common import (
    LEGEND,
    MOST_ROWS,
    height_of,
    left_out,
    stacked_layout,
    stacked_rows,
)
from traceanalyzer.report.palette import LINES, SYMBOLS, VERMILION
from traceanalyzer.report.scale import time_scale, time_text

MOST_STEPS = 300
_PARTS = {
    "compute": "useful_ns",
    "communication_transfer": "transfer_ns",
    "communication_wait": "wait_ns",
    "communication_unresolved": "unresolved_ns",
    "idle": "idle_ns",
}
_SHADES = [[0.0, "rgba(213,94,0,0.04)"], [1.0, VERMILION]]
"""From nearly nothing to the full colour, so that the largest stands out on light and on dark alike."""
MOST_FIGURES = 240
"""Fields of a map that have their values written in them."""
_SHAPES = tuple(SYMBOLS.values())


def waits(answer: Answer) -> Figure | None:
    """What a counted step of each rank is spent on: who waits, and who is waited for."""
    rows = [{**row, "unresolved_ns": _unresolved_ns(row)} for row in answer.tables["ranks"].rows()]
    if len(rows) < 2 or len({row["run"] for row in rows}) > 1 or not any(row["steps"] for row in rows):
        return None
    worst = sorted(rows, key=lambda row: -abs(row["excess_ns"] or 0))[:MOST_ROWS]
    shown = [row for row in rows if row in worst]
    parts = {name: [row[column] or 0 for row in shown] for name, column in _PARTS.items()}
    parts = {name: values for name, values in parts.items() if any(values) or name != "communication_unresolved"}
    wholes = [sum(values[k] for values in parts.values()) for k in range(len(shown))]
    scale = time_scale(wholes)
    told = [row for row in rows if row["wait_ns"] is not None]
    text = "Which ranks wait is not known: no clock tells."
    if told:
        most, least = (choose(told, key=lambda row: int(row["wait_ns"])) for choose in (max, min))
        text = (
            f"Rank {most['rank']} waits most, {time_text(most['wait_ns'])} a step; rank {least['rank']} least,"
            f" {time_text(least['wait_ns'])}."
        )
    return Figure(
        "waits",
        "A step of each rank: compute, transfer, waiting for others, idle",
        text,
        stacked_rows([f"rank {row['rank']}" for row in shown], parts, scale, wholes),
        stacked_layout(f"{scale.unit} a step"),
        height=height_of(len(shown), 20),
        note=left_out(len(shown), len(rows), "ranks", "those whose lateness differs most"),
    )


def _unresolved_ns(row: dict[str, Any]) -> int:
    """Communication of which it is not known whether it waits."""
    return int(row["exposed_communication_ns"]) if row["wait_ns"] is None else 0


def excess_map(answer: Answer) -> Figure | None:
    """Ranks by steps: how much later than the others each rank came to what they share."""
    frame = answer.tables["excess"]
    ranks = sorted({rank for rank in frame.columns["rank"] if rank is not None})
    steps = sorted(set(frame.columns["step"]))
    if len(ranks) < 2 or len(steps) < 2 or len(set(frame.columns["run"])) > 1:
        return None
    found: dict[tuple[int, int], int] = {}
    for row in frame.rows():
        found[row["rank"], row["step"]] = row["excess_ns"] or 0
    each = -(-len(steps) // MOST_STEPS)
    columns = [steps[k : k + each] for k in range(0, len(steps), each)]
    cells = [[_latest(found, rank, group) for group in columns] for rank in ranks]
    largest = max((value or 0 for row in cells for value in row), default=0)
    if largest <= 0:
        return None
    scale = time_scale([largest])
    latest = max(ranks, key=lambda rank: sum(max(found.get((rank, step), 0), 0) for step in steps))
    trace = {
        "type": "heatmap",
        "x": [str(group[0]) for group in columns],
        "y": [f"rank {rank}" for rank in ranks],
        "z": [scale.of([None if v is None else max(v, 0) for v in row]) for row in cells],
        "colorscale": _SHADES,
        "zmin": 0,
        "zmax": round(largest / scale.size, 6),
        "xgap": 1 if len(columns) <= 100 else 0,
        "ygap": 1 if len(ranks) <= 100 else 0,
        **({"texttemplate": "%{z:.3g}"} if len(columns) * len(ranks) <= MOST_FIGURES else {}),
        "colorbar": {"title": {"text": scale.unit}, "thickness": 12},
        "hovertemplate": f"%{{y}}, step %{{x}}<br>late by %{{z:.3f}} {scale.unit}<extra></extra>",
    }
    return Figure(
        "excess",
        "How late each rank is, step by step",
        f"Rank {latest} is late most; the field with most colour is {time_text(largest)}.",
        [trace],
        {
            "xaxis": {"title": {"text": "step"}, "type": "category", "nticks": 25},
            "yaxis": {"autorange": "reversed", "type": "category", "automargin": True, "nticks": 64},
        },
        height=height_of(len(ranks)),
        note=None if each == 1 else f"A field is the latest of {each} steps.",
    )


def _latest(found: dict[tuple[int, int], int], rank: int, steps: list[int]) -> int | None:
    values = [found[rank, step] for step in steps if (rank, step) in found]
    return max(values) if values else None


def bandwidth(answer: Answer) -> Figure | None:
    """Bus bandwidth by size, a line a kind of collective."""
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for row in answer.tables["bandwidth"].rows():
        if row["busbw_gbs"] and row["bytes"]:
            by_kind.setdefault(row["kind"], []).append(row)
    if not by_kind:
        return None
    traces = []
    for place, (kind, rows) in enumerate(sorted(by_kind.items())):
        rows.sort(key=lambda row: row["bytes"])
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": kind,
                "x": [row["bytes"] for row in rows],
                "y": [round(row["busbw_gbs"], 4) for row in rows],
                "text": [f"group {row['group']}, {row['count']:,} times" for row in rows],
                "marker": {"size": 9, "symbol": _SHAPES[place % len(_SHAPES)], "color": LINES[place % len(LINES)]},
                "hovertemplate": "%{fullData.name}, %{x:,} bytes<br>%{y:.2f} GB/s, %{text}<extra></extra>",
            }
        )
    fastest = max((row for rows in by_kind.values() for row in rows), key=lambda row: float(row["busbw_gbs"]))
    return Figure(
        "bandwidth",
        "Bus bandwidth of collectives by size",
        f"The fastest is {fastest['kind']} of {fastest['bytes']:,} bytes at {fastest['busbw_gbs']:.2f} GB/s.",
        traces,
        {
            "xaxis": {"title": {"text": "bytes of the whole array"}, "type": "log"},
            "yaxis": {"title": {"text": "GB/s"}, "rangemode": "tozero"},
            "legend": LEGEND,
            "showlegend": True,
        },
    )
