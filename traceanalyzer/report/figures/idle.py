"""Why the devices were idle: by cause, and by stack."""

from dataclasses import dataclass, field
from typing import Any

from traceanalyzer.passes.answer import Answer
from traceanalyzer.report.blocks import Figure
from traceanalyzer.report.figures.common import height_of, listed
from traceanalyzer.report.palette import style_of
from traceanalyzer.report.scale import share_text, time_scale, time_text

LEAST_SHARE = 0.004
"""Branches of the icicle with less of all idle time than this are joined."""
LEAST_TOLD = 0.01
"""Branches with less than this are not told in words."""
MOST_DEPTH = 10
_SHADES = ("#9cc4e4", "#c7dff0", "#7fb2d9", "#b4d2ea")
_REST = "#d0d4d9"


def causes(answer: Answer) -> Figure | None:
    """Idle time by cause, all devices together."""
    sums: dict[str, int] = {}
    for row in answer.tables["causes"].rows():
        sums[row["cause"]] = sums.get(row["cause"], 0) + row["idle_ns"]
    whole = sum(sums.values())
    if not whole:
        return None
    ordered = sorted(sums.items(), key=lambda item: -item[1])
    scale = time_scale([ns for _, ns in ordered])
    traces: list[dict[str, Any]] = [
        {
            "type": "bar",
            "orientation": "h",
            "y": [cause],
            "x": scale.of([ns]),
            "marker": style_of(f"idle:{cause}").marker,
            "text": [f"{time_text(ns)}, {share_text(ns / whole)}"],
            "textposition": "outside",
            "cliponaxis": False,
            "hovertemplate": "%{y}: %{text}<extra></extra>",
        }
        for cause, ns in ordered
    ]
    return Figure(
        "causes",
        "Idle time by cause, all devices together",
        listed((cause, share_text(ns / whole)) for cause, ns in ordered),
        traces,
        {
            "barmode": "overlay",
            "showlegend": False,
            "xaxis": {"title": {"text": scale.unit}, "rangemode": "tozero"},
            "yaxis": {"autorange": "reversed", "type": "category", "automargin": True},
            "margin": {"r": 130},
        },
        height=height_of(len(ordered)),
    )


@dataclass(slots=True)
class _Node:
    ns: int = 0
    children: dict[str, "_Node"] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Box:
    depth: int
    start: int
    ns: int
    label: str
    frames: tuple[str, ...]


def icicle(answer: Answer) -> Figure | None:
    """Idle time of all devices by stack: a box is as wide as the time that is idle under its frame.

    Frames that call one frame only share a box; narrow boxes are joined, and what is in no row of the table is one of
    its own, so that a level never looks like more or less than it is.
    """
    root = _Node(sum(answer.tables["devices"].columns["idle_ns"]))
    if root.ns <= 0:
        return None
    told = 0
    for row in answer.tables["stacks"].rows():
        told += row["idle_ns"]
        node = root
        for frame in [*row["stack"], f"[{row['cause']}]"]:
            node = node.children.setdefault(frame, _Node())
            node.ns += row["idle_ns"]
    if told < root.ns:
        root.children["(smaller stacks, not listed)"] = _Node(root.ns - told)
    boxes: list[_Box] = []
    _place(root, 0, 0, root.ns, boxes)
    if not boxes:
        return None
    scale = time_scale([root.ns])
    deepest = max(box.depth for box in boxes)
    large = [(name, child) for name, child in root.children.items() if child.ns >= LEAST_TOLD * root.ns]
    top = sorted(large, key=lambda item: -item[1].ns)
    return Figure(
        "icicle",
        f"{time_text(root.ns)} of idle time by stack: outer frames above, what was open inside below",
        listed(
            (_label(name, child)[0], share_text(child.ns / root.ns))
            for name, child in top
            if child.ns >= 0.01 * root.ns
        ),
        [_boxes(boxes, root.ns, scale.size)],
        {
            "bargap": 0.06,
            "xaxis": {"title": {"text": f"idle, {scale.unit}"}, "range": [0, root.ns / scale.size]},
            "yaxis": {"autorange": "reversed", "visible": False, "fixedrange": True},
            "uniformtext": {"mode": "hide", "minsize": 10},
            "margin": {"l": 16},
        },
        height=min(110 + 30 * (deepest + 1), 620),
        note="Drag to enlarge a part, double-click to go back.",
    )


def _boxes(boxes: list[_Box], whole: int, size: float) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "base": [round(box.start / size, 6) for box in boxes],
        "x": [round(box.ns / size, 6) for box in boxes],
        "y": [box.depth for box in boxes],
        "marker": {
            "color": [
                _REST if not box.frames else _SHADES[(box.depth + k) % len(_SHADES)] for k, box in enumerate(boxes)
            ],
            "line": {"width": 0.5, "color": "#ffffff"},
        },
        "text": [box.label for box in boxes],
        "textposition": "inside",
        "insidetextanchor": "start",
        "textangle": 0,
        "textfont": {"color": "#10202e", "size": 12},
        "constraintext": "inside",
        "customdata": [
            [time_text(box.ns), share_text(box.ns / whole), _chain(box.frames) or box.label] for box in boxes
        ],
        "hovertemplate": "%{customdata[2]}<br>%{customdata[0]}, %{customdata[1]} of idle<extra></extra>",
    }


def _chain(frames: tuple[str, ...], most: int = 12) -> str:
    if len(frames) > most:
        frames = (*frames[:2], f"… {len(frames) - most} more …", *frames[-(most - 2) :])
    return " > ".join(frames)


def _label(name: str, node: _Node) -> tuple[str, tuple[str, ...], _Node]:
    """A box that starts with a frame: its label, its frames, and the node whose children are below it."""
    frames = [name]
    while len(node.children) == 1:
        ((name, node),) = node.children.items()
        frames.append(name)
    ends = frames if len(frames) < 3 else [frames[0], "…", frames[-1]]
    if len(frames) > 1 and frames[-1].startswith("["):
        ends = [*(frames[:1] if len(frames) == 2 else ["…", frames[-2]]), frames[-1]]
    return " > ".join(ends), tuple(frames), node


def _place(node: _Node, start: int, depth: int, whole: int, boxes: list[_Box]) -> None:
    if depth >= MOST_DEPTH:
        return
    small = count = 0
    for name, child in sorted(node.children.items(), key=lambda item: (-item[1].ns, item[0])):
        if child.ns < LEAST_SHARE * whole:
            small, count = small + child.ns, count + 1
            continue
        label, frames, inner = _label(name, child)
        boxes.append(_Box(depth, start, child.ns, label, frames if not name.startswith("(smaller") else ()))
        _place(inner, start, depth + 1, whole, boxes)
        start += child.ns
    if small:
        boxes.append(_Box(depth, start, small, f"({count:,} smaller)", ()))
