"""A slow and simple reader of torch.profiler traces, written apart from the real one, to compare it with."""

import gzip
import json
import re
from decimal import ROUND_FLOOR, Decimal
from pathlib import Path
from typing import Any

DECODER = json.JSONDecoder(parse_float=Decimal, strict=False)
OPERATIONS = {
    "kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "memcpy": "memcpy",
    "gpu_memset": "memset",
    "memset": "memset",
}


def ns(value: Any) -> int:
    """Microseconds of any spelling as nanoseconds, half up."""
    return int((Decimal(value) * 1000 + Decimal("0.5")).to_integral_value(rounding=ROUND_FLOOR))


def events_of(text: str) -> list[dict[str, Any]]:
    """All events of a whole trace."""
    data = DECODER.decode(text)
    return data if isinstance(data, list) else data["traceEvents"]


def whole_events(text: str) -> list[dict[str, Any]]:
    """The whole events of a text that may be cut anywhere: those that stand before the cut."""
    start = re.search(r'"traceEvents"\s*:\s*\[', text) if text.lstrip().startswith("{") else re.search(r"\[", text)
    events: list[dict[str, Any]] = []
    at = start.end() if start else len(text)
    while True:
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        try:
            event, at = DECODER.raw_decode(text, at)
        except ValueError:
            return events
        if not isinstance(event, dict):
            return events
        events.append(event)


def operations(events: list[dict[str, Any]]) -> list[tuple[int, int, int, int, str, str]]:
    """(start, end, device, stream, kind, name) of every device operation."""
    out = []
    for event in events:
        kind = OPERATIONS.get(str(event.get("cat")).lower())
        if event.get("ph") == "X" and kind:
            arguments = event.get("args", {})
            start = ns(event["ts"])
            end = max(start, start + ns(event.get("dur", 0)))
            stream = str(arguments.get("stream", event.get("tid"))).removeprefix("stream ")
            device = int(arguments.get("device", event.get("pid")))
            out.append((start, end, device, int(stream), kind, event["name"]))
    return out


def read(path: Path) -> list[dict[str, Any]]:
    """All events of a file."""
    return events_of(gzip.decompress(path.read_bytes()).decode("utf-8", "replace"))
