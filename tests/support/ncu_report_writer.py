"""Reports of ncu, written by hand: the container, and the messages in it as far as a small report needs them."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Value = int | float | str
PID = 7
CHIP = {"device__attribute_implementation": 372}
"""What tells NVIDIA's library the chip, and so the units of metrics; without it there are none."""


def message(*fields: tuple[int, Value | bytes]) -> bytes:
    """A protobuf message of numbered fields."""
    return b"".join(_field(number, value) for number, value in fields)


def _field(number: int, value: Value | bytes) -> bytes:
    if isinstance(value, float):
        return _varint(number << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    content = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


@dataclass(frozen=True)
class Profiled:
    """A launch of a report. `rules` are (rule, title, text, type)."""

    kernel: str = "gemm(float *, int)"
    grid: tuple[int, int, int] = (64, 4, 1)
    block: tuple[int, int, int] = (128, 1, 1)
    metrics: Mapping[str, Value] = field(default_factory=dict)
    rules: Sequence[tuple[str, str, str, int]] = ()


def report(*launches: Profiled) -> bytes:
    """A whole report: a session, then a block for each launch, the first of them with the names of all metrics."""
    return b"".join(blocks(*launches))


def blocks(*launches: Profiled) -> list[bytes]:
    """The header of a report, and its blocks."""
    names = list(dict.fromkeys(name for each in launches for name in {**CHIP, **each.metrics}))
    out = [b"NVR\x00" + _sized(message((1, 7))), _block(session=message((2, 1_700_000_000)))]
    for number, each in enumerate(launches):
        table = message(*((1, name) for name in names)) if number == 0 else b""
        out.append(_block(results=1, table=table, payload=_sized(_result(each, names))))
    return out


def _sized(content: bytes) -> bytes:
    return struct.pack("<I", len(content)) + content


def _block(session: bytes = b"", results: int = 0, table: bytes = b"", payload: bytes = b"") -> bytes:
    process = message((1, PID), (2, "127.0.0.1"), (3, "/usr/bin/python3"))
    header = message((1, 0), (2, results), *([(3, session)] if session else []), (4, table), (5, len(payload)))
    return _sized(header + message((6, process))) + payload


def _result(launch: Profiled, names: list[str]) -> bytes:
    function = launch.kernel.partition("(")[0]
    found = {**CHIP, **launch.metrics}
    metrics = [message((1, names.index(name)), (2, _value(value))) for name, value in found.items()]
    rules = [_rule(*rule) for rule in launch.rules]
    return message(
        (1, PID),
        (2, 18),
        (3, 1),  # program and kernel, as numbers of the profiler
        (4, 1),
        (5, function),
        (6, function),
        (7, launch.kernel),
        (8, 3),
        (9, message((1, 0), (2, 0), (3, 0))),
        (10, message(*enumerate(launch.grid, 1))),
        (11, message(*enumerate(launch.block, 1))),
        *((13, metric) for metric in metrics),
        (14, 1_700_000_000),
        (15, message((1, 1))),
        *((19, rule) for rule in rules),
    )


def _value(value: Value) -> bytes:
    return message((1, value) if isinstance(value, str) else (3, value) if isinstance(value, float) else (5, value))


def _rule(rule: str, title: str, text: str, kind: int) -> bytes:
    found = message((1, text), (2, kind), (3, 1), (4, title))
    return message((1, rule), (2, title), (3, message((1, message((1, found))))), (4, "SpeedOfLight"))
