"""Sampled metrics of the devices over time."""

from typing import Any

from traceanalyzer.passes.answer import Answer
from traceanalyzer.report.blocks import Figure
from traceanalyzer.report.figures.common import LEGEND, left_out
from traceanalyzer.report.figures.memory import thinned
from traceanalyzer.report.scale import time_scale

MOST_POINTS = 800
MOST_LINES = 12
_PERCENT = "%"
_DASHES = ("solid", "dot", "dash", "longdash", "dashdot", "longdashdot")


def samples(answer: Answer) -> Figure | None:
    """Metrics in percent over time, those that vary most first: utilisation, activity of SMs and tensor cores, DRAM."""
    lines: dict[tuple[Any, ...], list[tuple[int, float]]] = {}
    for row in answer.tables["metrics"].rows():
        if row["unit"] != _PERCENT or row["value"] is None or row["t_ns"] is None:
            continue
        key = (row["capture"], row["rank"], row["device"], row["instance"], row["process"], row["metric"])
        lines.setdefault(key, []).append((row["t_ns"], row["value"]))
    varying = {key: max(v for _, v in points) - min(v for _, v in points) for key, points in lines.items()}
    able = sorted((key for key in lines if varying[key] > 0), key=lambda key: (-varying[key], str(key)))
    shown = able[:MOST_LINES]
    if not shown:
        return None
    begin = min(min(lines[key])[0] for key in shown)
    scale = time_scale([max(lines[key])[0] - begin for key in shown])
    traces: list[dict[str, Any]] = []
    for k, key in enumerate(shown):
        kept = thinned(sorted(lines[key]), MOST_POINTS)
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": _name(key),
                "x": scale.of([t - begin for t, _ in kept]),
                "y": [round(value, 3) for _, value in kept],
                "line": {"width": 1.5, "dash": _DASHES[k % len(_DASHES)]},
                "hovertemplate": f"%{{fullData.name}}<br>%{{y:.1f}} % at %{{x:.3f}} {scale.unit}<extra></extra>",
                "visible": True if k < 4 else "legendonly",
            }
        )
    return Figure(
        "samples",
        "Sampled metrics over time, in percent",
        ", ".join(f"{_name(key)} up to {max(v for _, v in lines[key]):.0f} %" for key in shown[:4]),
        traces,
        {
            "xaxis": {"title": {"text": f"{scale.unit} after the first sample"}},
            "yaxis": {"title": {"text": "%"}, "rangemode": "tozero"},
            "legend": LEGEND,
            "showlegend": True,
        },
        height=380,
        note=left_out(len(shown), len(able), "metrics", "those that vary most; others are in the table")
        or ("Those in grey in the legend are shown when chosen there." if len(shown) > 4 else None),
    )


def _name(key: tuple[Any, ...]) -> str:
    _, rank, device, instance, process, metric = key
    where = [] if rank is None else [f"rank {rank}"]
    where += [] if device is None else [f"device {device}"]
    where += [str(instance)] if instance is not None else []
    where += [f"process {process}"] if process is not None else []
    return f"{metric} ({', '.join(where)})" if where else str(metric)
