"""A torch.profiler trace of three steps, in which every name tries to become something else in a page."""

import json
from pathlib import Path
from typing import Any

from tests.support.torch_reading import call, kernel, operator

NAMES = (
    '<img src=x onerror="window.planted=1;alert(1)">',
    "</script><script>window.planted=1;alert(1)</script>",
    "</style></title></textarea><svg onload=window.planted=1>",
    "\"><b id=planted>'",
    '<a href="javascript:window.planted=1">link</a>',
    "<b>bold</b><i>it</i><br><sub>low</sub>",
    "%{x} %{fullData.name} <extra>%{y}</extra>",
    "&lt;b&gt;twice&lt;/b&gt; &amp;",
    "$\\alpha$",
    "__proto__",
    "constructor",
    "long <b>" + "x" * 2_000,
    "abc\u202egnp.exe\u2066",
    "\x1b[31mred\x1b]0;title\x07",
    "two\nlines\u2028and three",
    "javascript:window.planted=1",
    "{{7*7}} ${7*7} {% raw %}",
    "🚀 核函数 naïve",
)
"""The first ones take most time, so that figures show them."""
FILE_NAME = "<img src=x onerror=alert(1)> ' & 🚀.json"
_STEP_US, _EACH_US = 2_000, 100


def write_trace(folder: Path) -> Path:
    """Each name is that of an operator, a kernel, an annotation and a Python frame, the first one also of a thread."""
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "thread_name", "pid": 10, "tid": 11, "args": {"name": NAMES[0]}},
        {"ph": "M", "name": "process_name", "pid": 10, "tid": 0, "args": {"name": NAMES[1]}},
    ]
    for step in range(3):
        start = 1_000_000 + step * _STEP_US
        events.append(operator(f"ProfilerStep#{step}", start, _STEP_US - 10, cat="user_annotation"))
        for place, name in enumerate(NAMES):
            number = step * len(NAMES) + place + 1
            events += _work(name, start + 20 + place * _EACH_US, number, 20 + len(NAMES) - place)
    whole = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": NAMES[0], "totalGlobalMem": 1 << 34}],
        "traceName": NAMES[1],
        "distributedInfo": {"backend": NAMES[5], "rank": 0, "world_size": 1},
        "traceEvents": events,
    }
    path = folder / FILE_NAME
    path.write_text(json.dumps(whole))
    return path


def _work(name: str, ts: int, number: int, took: int) -> list[dict[str, Any]]:
    """An annotation, a Python frame, an operator and its kernel; after each kernel the device is idle for a while."""
    frame = {"Python id": number, "Python parent id": None}
    device = {"device": 0, "context": 1, "stream": 7, "correlation": number, "grid": [1, 1, 1], "block": [32, 1, 1]}
    return [
        operator(name, ts, 90, cat="user_annotation"),
        operator(f"train.py({number}): {name}", ts + 1, 88, cat="python_function", **frame),
        operator(name, ts + 30, 50, **{"External id": number}),
        call(ts=ts + 40, dur=6, correlation=number, **{"External id": number}),
        kernel(name, ts + 50, took, **device, **{"External id": number}),
    ]
