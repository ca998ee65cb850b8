"""The container of a report: a header, then blocks, each with what it holds, how long that is, and that itself.

NVIDIA's library reads a report that was cut as if it were a short one, and ends the process where lengths do not fit.
So the lengths are looked at first.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

_MAGIC_BYTES = 4
_LENGTH_BYTES = 4
_MESSAGES = (1, 2)  # fields of a block's header: sources (code) and results (launches) in its payload
_RESULTS, _PAYLOAD_BYTES = 2, 5
_MOST_VARINT_BYTES = 10


@dataclass(frozen=True, slots=True)
class Extent:
    """How much of a report is there: bytes up to the end of its last whole block, and the launches in them."""

    whole_bytes: int
    launches: int
    whole: bool


class _DamagedError(Exception):
    """Lengths do not fit."""


def extent_of(file: BinaryIO) -> Extent:
    """Walks the blocks of a report, up to its end or the first that is cut or whose lengths do not fit."""
    launches = end = 0
    size = file.seek(0, os.SEEK_END)
    file.seek(_MAGIC_BYTES)
    try:
        _sized(file, size)
        end = file.tell()
        while end < size:
            launches += _block(file, size)
            end = file.tell()
    except _DamagedError:
        return Extent(end, launches, whole=False)
    return Extent(end, launches, whole=True)


def _block(file: BinaryIO, size: int) -> int:
    """Goes past a block; returns how many launches it holds."""
    numbers = dict(_numbers(_sized(file, size)))
    if _PAYLOAD_BYTES not in numbers:
        raise _DamagedError
    end = file.tell() + numbers[_PAYLOAD_BYTES]
    if end > size:
        raise _DamagedError
    messages = 0
    while file.tell() < end:
        file.seek(_length(file, end), os.SEEK_CUR)
        messages += 1
    if messages < sum(numbers.get(field, 0) for field in _MESSAGES):
        raise _DamagedError
    return numbers.get(_RESULTS, 0)


def _sized(file: BinaryIO, end: int) -> bytes:
    return file.read(_length(file, end))


def _length(file: BinaryIO, end: int) -> int:
    """The length that stands in front of a message; the message ends at `end` or before."""
    stated = file.read(_LENGTH_BYTES)
    length = int.from_bytes(stated, "little")
    if len(stated) < _LENGTH_BYTES or file.tell() + length > end:
        raise _DamagedError
    return length


def _numbers(message: bytes) -> Iterator[tuple[int, int]]:
    """Fields of a protobuf message that are whole numbers, with their values."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        match key & 7:
            case 0:
                value, position = _varint(message, position)
                yield key >> 3, value
            case 1:
                position += 8
            case 2:
                length, position = _varint(message, position)
                position += length
            case 5:
                position += 4
            case _:
                raise _DamagedError
    if position > len(message):
        raise _DamagedError


def _varint(message: bytes, position: int) -> tuple[int, int]:
    """A number of protobuf, seven bits a byte, and where it ends."""
    value = 0
    for shift, byte in enumerate(message[position : position + _MOST_VARINT_BYTES]):
        value |= (byte & 127) << 7 * shift
        if byte < 128:
            return value, position + shift + 1
    raise _DamagedError
