"""The grammar of JSON for the compiled scanner: functions that read one token and return the place behind it, or -1.

Every text is a piece of a Python bytes object, behind whose end a zero byte stands: that ends every token, so that no
loop has to ask for the end of the text. Arrays are given as addresses: numba counts references of arrays and looks for
negative places, which takes five times as long. Importing this needs numba.
"""

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from traceanalyzer.sources.torch_trace import scan_layout as at

compiled = njit(
    nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True
)  # only the function that calls all others is kept on disk

_HIGHEST_BITS = 0x8080808080808080 - (1 << 64)
_FACTOR = 0x2545F4914F6CDD1D


@intrinsic
def _word(_typing: Any, address: Any, place: Any) -> Any:
    """The eight bytes from a place on as one integer, the first byte lowest."""

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        number = context.get_value_type(types.int64)
        start = builder.gep(values[0], [values[1]])
        return builder.load(builder.bitcast(start, number.as_pointer()), align=1)

    return types.int64(address, place), generate


@intrinsic
def _zeros_below(_typing: Any, word: Any) -> Any:
    """How many zero bits stand below the lowest one that is set."""

    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        return builder.cttz(values[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(word), generate


@compiled
def _special(data: Any, i: int) -> int:
    """How many of eight bytes stand before the first that is a quote, backslash, control character or no ASCII."""
    word = _word(data, i)
    quotes, backslashes = word ^ 0x2222222222222222, word ^ 0x5C5C5C5C5C5C5C5C
    found = word | ((word - 0x2020202020202020) & ~word)
    found |= (quotes - 0x0101010101010101) & ~quotes
    found |= (backslashes - 0x0101010101010101) & ~backslashes
    found &= _HIGHEST_BITS
    return _zeros_below(found) >> 3  # 64 if there is none


@compiled
def space(data: Any, i: int) -> int:
    """Reads white space."""
    while data[i] == 32 or data[i] == 10 or data[i] == 13 or data[i] == 9:
        i += 1
    return i


@compiled
def _unit(data: Any, i: int) -> int:
    """The four hexadecimal digits from i on as a number, or -1."""
    value = 0
    for k in range(4):
        c = data[i + k] | 32
        if 48 <= data[i + k] <= 57:
            value = value * 16 + (data[i + k] - 48)
        elif 97 <= c <= 102:
            value = value * 16 + (c - 87)
        else:
            return -1
    return value


@compiled
def _escape(data: Any, i: int) -> int:
    """Reads an escape; halves of a character must be pairs."""
    c = data[i + 1]
    if c == 117:
        unit = _unit(data, i + 2)
        if unit < 0 or 0xDC00 <= unit < 0xE000:
            return -1
        if 0xD800 <= unit < 0xDC00:
            if data[i + 6] != 92 or data[i + 7] != 117 or not 0xDC00 <= _unit(data, i + 8) < 0xE000:
                return -1
            return i + 12
        return i + 6
    if c in (34, 92, 47, 98, 102, 110, 114, 116):
        return i + 2
    return -1


@compiled
def string(data: Any, i: int, state: Any) -> int:
    """Reads a string; the state tells whether it has escapes, and whether any text has more than ASCII."""
    i += 1
    while True:
        while i <= state[at.LAST_WORD]:
            plain = _special(data, i)
            i += plain
            if plain < 8:
                break
        letter = state[at.LETTERS + data[i]]
        while letter == 0:
            i += 1
            letter = state[at.LETTERS + data[i]]
        if letter == at.QUOTE:
            return i + 1
        if letter == at.FOREIGN:
            state[at.NON_ASCII] = 1
            i += 1
        elif letter == at.BACKSLASH:
            state[at.ESCAPED] = 1
            i = _escape(data, i)
            if i < 0:
                return -1
        else:
            return -1


@compiled
def _digits(data: Any, i: int) -> int:
    while 48 <= data[i] <= 57:
        i += 1
    return i


@compiled
def _number(data: Any, i: int) -> int:
    if data[i] == 45:
        i += 1
    first = i
    i = _digits(data, i)
    if i == first or (data[first] == 48 and i > first + 1):
        return -1
    if data[i] == 46:
        first = i + 1
        i = _digits(data, first)
        if i == first:
            return -1
    if data[i] == 101 or data[i] == 69:
        i += 1
        if data[i] == 43 or data[i] == 45:
            i += 1
        first = i
        i = _digits(data, first)
        if i == first:
            return -1
    return i


@compiled
def literal(data: Any, i: int) -> int:
    """Reads null, true or false."""
    if data[i] == 110 and data[i + 1] == 117 and data[i + 2] == 108 and data[i + 3] == 108:
        return i + 4
    if data[i] == 116 and data[i + 1] == 114 and data[i + 2] == 117 and data[i + 3] == 101:
        return i + 4
    if data[i] == 102 and data[i + 1] == 97 and data[i + 2] == 108 and data[i + 3] == 115 and data[i + 4] == 101:
        return i + 5
    return -1


@compiled
def _key_and_colon(data: Any, i: int, state: Any) -> int:
    if data[i] != 34:
        return -1
    i = string(data, i, state)
    if i < 0:
        return -1
    i = space(data, i)
    return space(data, i + 1) if data[i] == 58 else -1


@compiled
def value_of(data: Any, i: int, state: Any) -> int:
    """Reads any value; lists and objects in it nest up to 60 deep."""
    depth, kinds = 0, 0  # the lowest bit of the kinds tells an object from a list
    while True:
        c = data[i]
        if c == 123 or c == 91:
            if depth == 60:
                return -1
            depth += 1
            kinds = kinds * 2 + (1 if c == 123 else 0)
            i = space(data, i + 1)
            if data[i] != c + 2:  # not closed at once
                if c == 123:
                    i = _key_and_colon(data, i, state)
                    if i < 0:
                        return -1
                continue
        elif c == 34:
            i = string(data, i, state)
        elif c == 45 or 48 <= c <= 57:
            i = _number(data, i)
        else:
            i = literal(data, i)
        if i < 0:
            return -1
        while depth:
            i = space(data, i)
            if data[i] != (125 if kinds & 1 else 93):
                break
            depth, kinds, i = depth - 1, kinds >> 1, i + 1
        if depth == 0:
            return i
        if data[i] != 44:
            return -1
        i = space(data, i + 1)
        if kinds & 1:
            i = _key_and_colon(data, i, state)
            if i < 0:
                return -1


@compiled
def integer(data: Any, i: int, state: Any) -> int:
    """Reads a number; the state tells whether it is an integer that surely fits into 64 bits, and that."""
    start = i
    if data[i] == 45:
        i += 1
    first, value = i, 0
    while 48 <= data[i] <= 57:
        value = value * 10 + (data[i] - 48)
        i += 1
    if i == first or (data[first] == 48 and i > first + 1):
        return -1
    state[at.FITS] = 0
    if i - first > 18 or data[i] == 46 or data[i] == 101 or data[i] == 69:
        return _number(data, start)
    state[at.FITS] = 1
    state[at.VALUE] = value if first == start else -value
    return i


@compiled
def time(data: Any, i: int, state: Any) -> int:
    """Reads microseconds; the state tells whether they are plain, and the nanoseconds."""
    first, value = i, 0
    while 48 <= data[i] <= 57:
        value = value * 10 + (data[i] - 48)
        i += 1
    state[at.FITS] = 0
    digits = i - first
    if digits == 0:
        return value_of(data, first, state)
    places = 0
    if data[i] == 46:
        point = i
        i += 1
        while 48 <= data[i] <= 57:
            value = value * 10 + (data[i] - 48)
            i += 1
        places = i - point - 1
        if places == 0:
            return -1
    wide = digits > 16 or (digits == 16 and data[first] == 57)
    if wide or places > 3 or data[i] == 101 or data[i] == 69:
        return _number(data, first)
    if data[first] == 48 and digits > 1:
        return -1
    state[at.FITS] = 1
    state[at.VALUE] = value * (1000 if places == 0 else 100 if places == 1 else 10 if places == 2 else 1)
    return i


@compiled
def _hash(data: Any, begin: int, end: int) -> int:
    value: Any = end - begin
    i = begin
    while i + 8 <= end:
        value = (value ^ _word(data, i)) * _FACTOR
        value ^= value >> 29
        i += 8
    if i < end:
        if end - begin >= 8:
            value = (value ^ _word(data, end - 8)) * _FACTOR
        else:
            while i < end:
                value = (value ^ data[i]) * _FACTOR
                i += 1
        value ^= value >> 29
    return value


@compiled
def _equal(data: Any, a: int, b: int, length: int) -> bool:
    k = 0
    while k + 8 <= length:
        if _word(data, a + k) != _word(data, b + k):
            return False
        k += 8
    while k < length and data[a + k] == data[b + k]:
        k += 1
    return k == length


@compiled
def intern(data: Any, begin: int, end: int, table: Any, strings: Any, state: Any) -> int:
    """The code of a text: equal bytes have equal codes."""
    if begin == end:
        return 0
    value, mask = _hash(data, begin, end), state[at.TABLE_MASK]
    slot = value & mask
    while True:
        code = table[slot]
        if code < 0:
            break
        length = strings[3 * code + 1] - strings[3 * code]
        if strings[3 * code + 2] == value and length == end - begin and _equal(data, strings[3 * code], begin, length):
            return code
        slot = (slot + 1) & mask
    code = state[at.N_STRINGS]
    if code == state[at.STRINGS_ROOM]:
        state[at.FULL] = 1
        return 0
    strings[3 * code], strings[3 * code + 1], strings[3 * code + 2] = begin, end, value
    table[slot] = code
    state[at.N_STRINGS] = code + 1
    return code
