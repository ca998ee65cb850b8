"""Text of a frame, made from the recorded name of an event."""

import re
from typing import NamedTuple

from traceanalyzer.schema.kinds import EventKind

_PYTHON = re.compile(r"(.*)\(([0-9]{1,9})\): (.+)", re.DOTALL)
_API_VERSION = re.compile(r"(?<=\w)_v\d+$")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_EMIT_NVTX = re.compile(r", (?:seq|op_id) = \d.*", re.DOTALL)

_MOST_DIGITS = 18  # more may not fit into 64 bits

STEP_RANGE = r"\W*(?:step|iteration|iter|ProfilerStep)\b[\s#_:=.-]*+\d*+\W*+"
"""Default of `--step-range`: a range that marks a step, with or without a number."""


class Frame(NamedTuple):
    """A frame of a stack: its text, and file and line where the name tells them."""

    text: str
    file: str | None = None
    line: int | None = None


def frame_of(kind: EventKind, name: str) -> Frame:
    """The frame of an event: `function (file.py:123)` for Python, calls without version suffix, no addresses."""
    name = _ADDRESS.sub("", name)
    if kind is EventKind.PYTHON_FRAME and (match := _PYTHON.fullmatch(name)):
        path, line, function = match.groups()
        base = re.split(r"[/\\]", path)[-1]
        return Frame(f"{function} ({base}:{line})", path, int(line))
    if kind is EventKind.API_CALL:
        return Frame(_API_VERSION.sub("", name))
    return Frame(_EMIT_NVTX.sub("", name))


def step_number(text: str) -> int | None:
    """The number at the end of a step mark's text, if it has one."""
    match = re.search(r"([0-9]+)\W*$", text)
    return int(match[1]) if match and len(match[1]) <= _MOST_DIGITS else None
