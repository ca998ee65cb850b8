"""The compiled scanner: proves that a text is whole JSON objects with commas between, and takes the columns out of it.

Nothing here knows what events mean; an event that is not plain is flagged, for others to read. Importing this needs
numba.
"""

from hashlib import blake2b
from pathlib import Path
from typing import Any

from numba import njit, types
from numba.extending import intrinsic

from traceanalyzer.sources.torch_trace import scan_json, scan_layout
from traceanalyzer.sources.torch_trace import scan_layout as at
from traceanalyzer.sources.torch_trace.scan_json import (
    compiled,
    integer,
    intern,
    literal,
    space,
    string,
    time,
    value_of,
)


@compiled
def _shape(state: Any, table: Any, shapes: Any) -> int:
    """The code of the four texts of shapes together; 0 where there is none of them."""
    a, b, c, d = state[at.DIMS], state[at.DIMS + 1], state[at.DIMS + 2], state[at.DIMS + 3]
    if a < 0 and b < 0 and c < 0 and d < 0:
        return 0
    value = ((a * 0x2545F4914F6CDD1D + b) * 0x2545F4914F6CDD1D + c) * 0x2545F4914F6CDD1D + d
    mask = state[at.SHAPE_TABLE_MASK]
    slot = (value ^ value >> 31) & mask
    while True:
        code = table[slot]
        if code < 0:
            break
        if (
            shapes[4 * code] == a
            and shapes[4 * code + 1] == b
            and shapes[4 * code + 2] == c
            and shapes[4 * code + 3] == d
        ):
            return code
        slot = (slot + 1) & mask
    code = state[at.N_SHAPES]
    if code == state[at.SHAPES_ROOM]:
        state[at.FULL] = 1
        return 0
    shapes[4 * code], shapes[4 * code + 1], shapes[4 * code + 2], shapes[4 * code + 3] = a, b, c, d
    table[slot] = code
    state[at.N_SHAPES] = code + 1
    return code


@compiled
def _key(data: Any, begin: int, end: int, state: Any) -> int:
    """The number of a known key, or -1."""
    length = end - begin
    if length == 0 or length > at.LONGEST_KEY:
        return -1
    slot = (length * 37 + data[begin] * 5 + data[begin + (length >> 1)] * 11 + data[end - 1] * 3) & 255
    while True:
        key = state[at.KEY_SLOTS + slot]
        if key < 0:
            return -1
        if state[at.KEY_LENGTHS + key] == length:
            first, k = state[at.KEY_PLACES + key], 0
            while k < length and data[begin + k] == state[at.KEY_TEXT + first + k]:
                k += 1
            if k == length:
                return key
        slot = (slot + 1) & 255


@compiled
def _next_key(data: Any, i: int, seen: int, state: Any) -> int:
    """Reads a key and the colon; the state tells its number. One with escapes, or for the second time, is odd."""
    if data[i] != 34:
        return -1
    begin = i + 1
    state[at.ESCAPED] = 0
    i = string(data, i, state)
    if i < 0:
        return -1
    end = i - 1
    i = space(data, i)
    if data[i] != 58:
        return -1
    i = space(data, i + 1)
    key = -1
    if state[at.ESCAPED]:
        state[at.FLAGS] |= at.IS_ODD
    else:
        key = _key(data, begin, end, state)
    if key >= 0:
        if state[seen] >> key & 1:
            state[at.FLAGS] |= at.IS_ODD
        state[seen] |= 1 << key
    state[at.VALUE] = key
    return i


@compiled
def _triple(data: Any, i: int, column: int, args: Any, state: Any) -> int:
    """Reads a list of three integers into three columns; a text or null is none, anything else is odd."""
    start, row = i, state[at.N_ARGS]
    if data[i] == 34 or data[i] == 110:
        return value_of(data, i, state)
    good = data[i] == 91
    for k in range(3):
        if good:
            i = space(data, i + 1)
            good = data[i] == 45 or 48 <= data[i] <= 57
        if good:
            i = integer(data, i, state)
            if i < 0:
                return -1
            args[row * at.ARGUMENT_COLUMNS + column + k] = state[at.VALUE]
            i = space(data, i)
            good = state[at.FITS] == 1 and data[i] == (44 if k < 2 else 93)
    if good:
        return i + 1
    state[at.FLAGS] |= at.IS_ODD
    return value_of(data, start, state)


@compiled
def _flag(data: Any, i: int, key: int, state: Any) -> int:
    """Reads an argument of which only matters whether it is there."""
    c, odd = data[i], False
    end = value_of(data, i, state)
    if key == at.KEY_KERNEL_FILE:
        state[at.FLAGS] |= at.IS_GENERATED
    elif key == at.KEY_FINISHED:
        if c == 102:
            state[at.FLAGS] |= at.IS_UNFINISHED
        odd = c != 102 and c != 116 and c != 110
    elif key == at.KEY_COLLECTIVE:
        if c == 34:
            state[at.FLAGS] |= at.IS_COLLECTIVE
        odd = c != 34 and c != 110
    else:
        if c == 34 and end > i + 2:
            state[at.FLAGS] |= at.HAS_STACK
        odd = c != 34 and c != 110
    if odd:
        state[at.FLAGS] |= at.IS_ODD
    return end


@compiled
def _argument(data: Any, i: int, key: int, state: Any, args: Any, table: Any, strings: Any) -> int:
    """Reads the value of a known argument."""
    if key < at.KEY_GRID or key == at.KEY_GRID or key == at.KEY_BLOCK:
        row = state[at.N_ARGS]
        if state[at.ARGS_ROW] == 0:
            state[at.ARGS_ROW] = row
            for k in range(at.ARGUMENT_COLUMNS):
                args[row * at.ARGUMENT_COLUMNS + k] = at.ABSENT
        if key >= at.KEY_GRID:
            return _triple(data, i, at.TRIPLES + 3 * (key - at.KEY_GRID), args, state)
        if data[i] == 45 or 48 <= data[i] <= 57:
            i = integer(data, i, state)
            if state[at.FITS]:
                args[row * at.ARGUMENT_COLUMNS + key - at.KEY_FIRST_ARGUMENT] = state[at.VALUE]
            else:
                state[at.FLAGS] |= at.IS_ODD
            return i
        if data[i] != 110:
            state[at.FLAGS] |= at.IS_ODD
        return value_of(data, i, state)
    if key > at.KEY_INPUT_DIMS_LOWER:
        return _flag(data, i, key, state)
    cell = at.DIMS if key == at.KEY_INPUT_DIMS_LOWER else at.DIMS + key - at.KEY_INPUT_DIMS
    if state[cell] >= 0:
        state[at.FLAGS] |= at.IS_ODD  # both spellings
    begin = i
    i = value_of(data, i, state)
    if i > 0:
        state[cell] = intern(data, begin, i, table, strings, state)
    return i


@compiled
def _arguments(data: Any, i: int, state: Any, args: Any, table: Any, strings: Any) -> int:
    """Reads the object of arguments that begins at i."""
    state[at.ARGS_BEGIN] = i
    i = space(data, i + 1)
    if data[i] == 125:
        state[at.ARGS_END] = i + 1
        return i + 1
    while True:
        i = _next_key(data, i, at.ARGUMENT_KEYS_SEEN, state)
        if i < 0:
            return -1
        key = state[at.VALUE]
        i = (
            _argument(data, i, key, state, args, table, strings)
            if key >= at.KEY_FIRST_ARGUMENT
            else value_of(data, i, state)
        )
        if i < 0:
            return -1
        i = space(data, i)
        if data[i] == 125:
            state[at.ARGS_END] = i + 1
            return i + 1
        if data[i] != 44:
            return -1
        i = space(data, i + 1)


@compiled
def _text_field(data: Any, i: int, key: int, state: Any) -> int:
    """Reads the phase, name or category of an event."""
    if data[i] == 34:
        begin = i + 1
        i = string(data, i, state)
        if key == at.KEY_PHASE:
            state[at.PHASE] = data[begin]
            if i != begin + 2 or data[begin] >= 128:
                state[at.FLAGS] |= at.IS_ODD
        elif key == at.KEY_NAME:
            state[at.NAME], state[at.NAME_END] = begin, i - 1
        else:
            state[at.CATEGORY], state[at.CATEGORY_END] = begin, i - 1
        return i
    if data[i] != 110 or key == at.KEY_PHASE:
        state[at.FLAGS] |= at.IS_ODD
    return value_of(data, i, state)


@compiled
def _field(data: Any, i: int, key: int, state: Any) -> int:
    """Reads the value of a known key of an event, but for an object of arguments."""
    if key <= at.KEY_NAME:
        return _text_field(data, i, key, state)
    if key == at.KEY_START or key == at.KEY_DURATION:
        i = time(data, i, state)
        cell = at.START if key == at.KEY_START else at.LENGTH
    elif key == at.KEY_ARGS:
        state[at.FLAGS] |= at.IS_ODD
        return value_of(data, i, state)
    else:
        if data[i] == 110:
            return literal(data, i)
        state[at.FITS] = 0
        i = integer(data, i, state) if data[i] == 45 or 48 <= data[i] <= 57 else value_of(data, i, state)
        cell = at.PROCESS if key == at.KEY_PROCESS else at.THREAD
    if state[at.FITS]:
        state[cell] = state[at.VALUE]
    else:
        state[at.FLAGS] |= at.IS_ODD
    return i


@compiled
def _event(data: Any, i: int, state: Any, args: Any, table: Any, strings: Any) -> int:
    """Reads the event that begins at i into the state."""
    for k in range(at.N_EVENTS):
        state[k] = 0
    state[at.BEGIN], state[at.PROCESS], state[at.THREAD] = i, at.ABSENT, at.ABSENT
    for k in range(4):
        state[at.DIMS + k] = -1
    i = space(data, i + 1)
    while data[i] != 125:
        if state[at.END]:
            if data[i] != 44:
                return -1
            i = space(data, i + 1)
        state[at.END] = 1  # a pair was read
        i = _next_key(data, i, at.KEYS_SEEN, state)
        if i < 0:
            return -1
        key = state[at.VALUE]
        if key == at.KEY_ARGS and data[i] == 123:
            i = _arguments(data, i, state, args, table, strings)
        elif 0 <= key < at.KEY_FIRST_ARGUMENT:
            i = _field(data, i, key, state)
        else:
            i = value_of(data, i, state)
        if i < 0:
            return -1
        i = space(data, i)
    state[at.END] = i + 1
    return i + 1


@compiled
def _keep(data: Any, state: Any, events: Any, table: Any, strings: Any, shape_table: Any, shapes: Any) -> None:
    """Takes the event in the state over into the matrix, or counts it only."""
    phase, needed = state[at.PHASE], 1 << at.KEY_PHASE
    if phase == 88 or phase == 105 or phase == 73:
        needed |= 1 << at.KEY_START
    if state[at.KEYS_SEEN] & needed != needed:
        state[at.FLAGS] |= at.IS_ODD
    if state[at.FLAGS] & at.IS_ODD:
        state[at.N_ODD] += 1
        state[at.NAME] = state[at.CATEGORY] = state[at.ARGS_ROW] = 0
    elif phase == 115 or phase == 116 or phase == 102:
        state[at.N_FLOWS] += 1
        return
    else:
        state[at.NAME] = intern(data, state[at.NAME], state[at.NAME_END], table, strings, state)
        state[at.CATEGORY] = intern(data, state[at.CATEGORY], state[at.CATEGORY_END], table, strings, state)
        state[at.SHAPE] = _shape(state, shape_table, shapes)
        if state[at.ARGS_ROW]:
            state[at.N_ARGS] += 1
    row = state[at.N_EVENTS]
    for k in range(at.COLUMNS):
        events[k * state[at.EVENTS_ROOM] + row] = state[k]
    state[at.N_EVENTS] = row + 1


@intrinsic
def _pointer(_typing: Any, array: Any) -> Any:
    """The address of an array's first element: without the counts of references and the checks for negative places."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return context.make_array(signature.args[0])(context, builder, values[0]).data

    return types.CPointer(array.dtype)(array), generate


@compiled
def _scan(
    data: Any, i: int, stop: int, state: Any, events: Any, args: Any, table: Any, strings: Any, shape_table: Any,
    shapes: Any,
) -> int:  # fmt: skip
    i = space(data, i)
    while True:
        if data[i] != 123:
            return at.UNPROVEN
        if state[at.N_EVENTS] == state[at.EVENTS_ROOM] or state[at.FULL]:
            return at.NO_ROOM
        i = _event(data, i, state, args, table, strings)
        if i < 0 or i > stop:
            return at.UNPROVEN
        _keep(data, state, events, table, strings, shape_table, shapes)
        if i == stop:
            return at.NO_ROOM if state[at.FULL] else at.PROVEN
        i = space(data, i)
        if data[i] == 93:
            state[at.ARRAY_END] = i + 1
            return at.NO_ROOM if state[at.FULL] else at.PROVEN
        if data[i] != 44:
            return at.UNPROVEN
        i = space(data, i + 1)


def _stamp() -> int:
    """A number that changes with the sources that numba, which looks at this file alone, does not see."""
    sources = [Path(str(module.__file__)).read_bytes() for module in (scan_json, scan_layout)]
    return int.from_bytes(blake2b(b"".join(sources), digest_size=7).digest(), "little")


def _entry(stamp: int) -> Any:
    """The function that is kept on disk; the stamp, a value from outside, is in the key under which it lies."""

    @njit(nogil=True, cache=True, error_model="numpy")
    def scan(
        data: Any, start: int, stop: int, state: Any, events: Any, args: Any, table: Any, strings: Any,
        shape_table: Any, shapes: Any,
    ) -> int:  # fmt: skip
        state[at.STAMP] = stamp
        return _scan(
            _pointer(data), start, stop, _pointer(state), _pointer(events), _pointer(args), _pointer(table),
            _pointer(strings), _pointer(shape_table), _pointer(shapes),
        )  # fmt: skip

    return scan


scan = _entry(_stamp())
"""Reads the objects between two places of a text that ends with a zero byte, or up to the end of their list.

Returns whether they are `PROVEN` to be whole objects with commas between, or `UNPROVEN`, or that there was `NO_ROOM` in
the arrays.
"""
