"""Python stacks that nsys writes as NVTX marks: periodic samples, and back traces of CUDA calls.

The marks stand in domains of these names. Their frames come as JSON text
`{"Python Periodic Sampling": {..., "Frames": [{"Function": id, "File": id, "Line": n}, ...]}}`, or as a binary payload,
or not at all (exports of nsys 2023). Function and file are ids of StringIds; the innermost frame is first.
"""

import html
import json
import struct
from typing import Any

from traceanalyzer.schema.kinds import EventKind
from traceanalyzer.sources.nsys_sqlite.call_chains import NO_NODE
from traceanalyzer.sources.nsys_sqlite.capture import Capture
from traceanalyzer.sources.nsys_sqlite.payloads import payload_of

PERIODIC = "Python Periodic Sampling"
ON_CUDA = "Python Backtrace on CUDA"
WITHOUT_FRAMES = "Python Backtrace"  # nsys 2023
_HEAD = struct.Struct("<QII")  # id of the thread state, thread state, number of frames
_FRAME = struct.Struct("<QQI4x")  # function, file, line; the line has 32 bits, what follows it is not cleared
_REMEMBERED = 50_000


class PythonStacks:
    """Nodes of the innermost Python frame of such marks. Equal marks are decoded once."""

    def __init__(self, capture: Capture) -> None:
        self._names = capture.names
        self._stacks = capture.sink.stacks
        self._nodes: dict[str | bytes, int] = {}
        self._frames: dict[tuple[int, int], tuple[str, str | None]] = {}

    def node(self, json_text: Any, binary: Any) -> int:
        """Node of the mark's innermost frame; `NO_NODE` where it has no frames that can be read."""
        for source, decode in ((json_text, _frames_of_json), (binary, _frames_of_binary)):
            if not source:
                continue
            found = self._nodes.get(source)
            if found is None:
                found = self._build(decode(source))
                if len(self._nodes) >= _REMEMBERED:
                    self._nodes.clear()
                self._nodes[source] = found
            if found != NO_NODE:
                return found
        return NO_NODE

    def _build(self, frames: list[tuple[int, int, int]]) -> int:
        node = NO_NODE
        for function_id, file_id, line in reversed(frames):
            function, file = self._texts(function_id, file_id)
            where = f" ({_last_part(file)}:{line})" if file else ""
            node = self._stacks.node(
                node, f"{function}{where}", file=file, line=line if file else None, kind=EventKind.PYTHON_FRAME
            )
        return node

    def _texts(self, function_id: int, file_id: int) -> tuple[str, str | None]:
        key = (function_id, file_id)
        if key not in self._frames:
            function, file = self._names.text(function_id), self._names.text(file_id)
            # The export escapes <module> and the like as if it were HTML.
            self._frames[key] = (html.unescape(function or "unknown"), html.unescape(file) if file else None)
        return self._frames[key]


def _last_part(path: str) -> str:
    return path.replace("\\", "/").rsplit("/", 1)[-1] or path


def _frames_of_json(text: Any) -> list[tuple[int, int, int]]:
    try:
        (mark,) = json.loads(text).values()
        return [(int(f["Function"]), int(f["File"]), int(f["Line"])) for f in mark["Frames"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []


def _frames_of_binary(raw: Any) -> list[tuple[int, int, int]]:
    payload = payload_of(raw)
    if payload is None or len(payload.data) < _HEAD.size:
        return []
    _thread, _state, count = _HEAD.unpack_from(payload.data)
    if len(payload.data) < _HEAD.size + count * _FRAME.size:
        return []
    return [_FRAME.unpack_from(payload.data, _HEAD.size + i * _FRAME.size) for i in range(count)]
