"""Arguments that are kept as text: shapes, types, generated kernels, modules; and call stacks that operators carry."""

import json
from pathlib import PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.schema.frames import frame_of
from traceanalyzer.schema.kinds import EventKind
from traceanalyzer.schema.sink import NO_TEXT, Sink
from traceanalyzer.sources.torch_trace.records import (
    ABSENT,
    TritonArguments,
    loads,
)
from traceanalyzer.sources.torch_trace.rows import SEPARATOR, Arguments, Rows

_SHAPE_KEYS = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")


class _Shapes(dict[bytes, int]):
    """Codes of the texts of shapes and types by the raw texts that the file has, each built once."""

    def __init__(self, sink: Sink) -> None:
        super().__init__()
        self._sink = sink
        self[SEPARATOR * 3] = NO_TEXT

    def __missing__(self, key: bytes) -> int:
        parts = zip(_SHAPE_KEYS, key.split(SEPARATOR), strict=True)
        text = compact({name: _value(part) for name, part in parts if part})
        code = self[key] = self._sink.texts[text]
        return code


class Payloads:
    """Makes compact JSON texts of arguments, coded by the dictionary of the capture."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._shapes = _Shapes(sink)
        self._nodes: dict[str, int] = {}

    def of_operators(self, rows: Rows, arguments: Arguments) -> NDArray[np.int32]:
        """Shapes, types, strides and scalars of operators, and what generated kernels say of themselves."""
        out = arguments.shapes(self._shapes)
        generated = arguments.having("kernel_file")
        if len(generated):
            triton = rows.take(generated).records(TritonArguments)
            for i, more in zip(generated.tolist(), triton, strict=True):
                shapes = json.loads(self._sink.texts.all[out[i]]) if out[i] != NO_TEXT else {}
                out[i] = self._sink.texts[compact(shapes | _triton(more))]
        return out

    def of_modules(self, numbers: list[Any]) -> NDArray[np.int32]:
        """Numbers of module instances."""
        look = self._sink.texts.__getitem__
        texts = [None if n in (ABSENT, None) else compact({"Python module id": n}) for n in numbers]
        return np.array([NO_TEXT if text is None else look(text) for text in texts], np.int32)

    def of_rows(self, rows: list[dict[str, Any]]) -> NDArray[np.int32]:
        """Any small arguments."""
        return np.array([self._sink.texts[compact(row)] for row in rows], np.int32)

    def node(self, call_stack: str) -> int:
        """The node of a call stack that an operator carries as text, newest frame first, with semicolons between."""
        known = self._nodes.get(call_stack)
        if known is None:
            known = -1
            for text in reversed(call_stack.split(";")):
                if text.strip():
                    frame = frame_of(EventKind.PYTHON_FRAME, text.strip())
                    known = self._sink.stacks.node(
                        known, frame.text, frame.file, frame.line, kind=EventKind.PYTHON_FRAME
                    )
            self._nodes[call_stack] = known
        return known


_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def compact(value: Any) -> str:
    """JSON text without white space."""
    return _encode(value)


def _value(raw: Any) -> Any:
    text = bytes(raw).decode("utf-8", "replace")
    try:
        return loads(text)
    except ValueError:
        return text


def _triton(arguments: TritonArguments) -> dict[str, Any]:
    """The arguments of a generated kernel; of its file only the name, for folders tell who ran it."""
    names = ("kernel_backend", "grid", "kernel_kwargs", "num_warps", "num_stages")
    values = {name: _value(raw) for name in names if (raw := getattr(arguments, name))}
    return values | {"kernel_file": PurePosixPath(str(_value(arguments.kernel_file))).name}
