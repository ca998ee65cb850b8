"""Sampled metrics of the devices over time."""

from collections.abc import Iterator
from typing import Any

from traceanalyzer.passes.answer import Answer
from traceanalyzer.report.blocks import Figure
from traceanalyzer.report.figures.common import LEGEND, left_out
from traceanalyzer.report.figures.memory import THINNED, thinned
from traceanalyzer.report.palette import LINES
from traceanalyzer.report.scale import time_scale

MOST_POINTS = 800
MOST_LINES = 12
MOST_SHOWN = 4
"""Lines that are drawn at once; the others when they are chosen in the legend."""
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
    # Files have clocks of their own.
    begins: dict[Any, int] = {}
    for key in shown:
        begins[key[0]] = min(begins.get(key[0], min(lines[key])[0]), min(lines[key])[0])
    scale = time_scale([max(lines[key])[0] - begins[key[0]] for key in shown])
    traces: list[dict[str, Any]] = []
    for k, key in enumerate(shown):
        kept = thinned(sorted(lines[key]), MOST_POINTS)
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": _name(key),
                "x": scale.of([t - begins[key[0]] for t, _ in kept]),
                "y": [round(value, 3) for _, value in kept],
                "line": {"width": 1.5, "dash": _DASHES[k % len(_DASHES)], "color": LINES[k % len(LINES)]},
                "hovertemplate": f"%{{fullData.name}}<br>%{{y:.1f}} % at %{{x:.3f}} {scale.unit}<extra></extra>",
                "visible": True if k < MOST_SHOWN else "legendonly",
            }
        )
    return Figure(
        "samples",
        "Sampled metrics over time, in percent",
        ", ".join(f"{_name(key)} up to {max(v for _, v in lines[key]):.0f} %" for key in shown[:MOST_SHOWN]),
        traces,
        {
            "xaxis": {"title": {"text": f"{scale.unit} after the first sample"}},
            "yaxis": {"title": {"text": "%"}, "rangemode": "tozero"},
            "legend": LEGEND,
            "showlegend": True,
        },
        height=380,
        note=" ".join(_notes(len(shown), len(able), len(begins), max(map(len, lines.values())))),
    )


def _notes(shown: int, able: int, files: int, points: int) -> Iterator[str]:
    yield left_out(shown, able, "metrics", "those that vary most; others are in the table") or ""
    if shown > MOST_SHOWN:
        yield "Those in grey in the legend are shown when chosen there."
    if files > 1:
        yield f"Each of {files} files begins at its own first sample."
    if points > MOST_POINTS:
        yield THINNED


def _name(key: tuple[Any, ...]) -> str:
    _, rank, device, instance, process, metric = key
    where = [] if rank is None else [f"rank {rank}"]
    where += [] if device is None else [f"device {device}"]
    where += [str(instance)] if instance is not None else []
    where += [f"process {process}"] if process is not None else []
    return f"{metric} ({', '.join(where)})" if where else str(metric)
