"""What the compiled scanner and its users agree on: columns of its matrices, cells of its state, known keys."""

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.sources.torch_trace.records import ABSENT as _ABSENT

ABSENT = _ABSENT
"""An integer that an event does not have."""

# Columns of the matrix of events. They are also the first cells of the state, where an event is put together.
START, LENGTH, PROCESS, THREAD, PHASE, FLAGS, NAME, CATEGORY = range(8)
BEGIN, END, ARGS_BEGIN, ARGS_END, ARGS_ROW, SHAPE = range(8, 14)
COLUMNS = 14

# Cells of the state that are of one event or of one value.
NAME_END, CATEGORY_END, KEYS_SEEN, ARGUMENT_KEYS_SEEN, ESCAPED, FITS, VALUE = range(14, 21)
DIMS = 21
"""The first of four cells for the codes of the texts of dims, types, strides and inputs."""

# Cells of the state that are of the block.
N_EVENTS, N_FLOWS, N_ARGS, N_ODD, N_STRINGS, N_SHAPES, NON_ASCII, FULL, ARRAY_END = range(25, 34)
EVENTS_ROOM, STRINGS_ROOM, SHAPES_ROOM, TABLE_MASK, SHAPE_TABLE_MASK, STAMP, LAST_WORD = range(34, 41)

IS_ODD, IS_COLLECTIVE, IS_GENERATED, HAS_STACK, IS_UNFINISHED = 1, 2, 4, 8, 16
"""Bits of the column `FLAGS`."""

PROVEN, UNPROVEN, NO_ROOM = 0, 1, 2
"""What the scanner returns."""

EVENT_KEYS = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "args")
KEY_PHASE, KEY_CATEGORY, KEY_NAME, KEY_PROCESS, KEY_THREAD, KEY_START, KEY_DURATION, KEY_ARGS = range(8)
KEY_FIRST_ARGUMENT = 8

INTEGER_KEYS = (
    "correlation",
    "External id",
    "external id",
    "device",
    "context",
    "stream",
    "bytes",
    "size",
    "registers per thread",
    "shared memory",
    "est. achieved occupancy %",
    "graph id",
    "graph node id",
    "Sequence number",
    "Fwd thread id",
    "Python module id",
    "Bytes",
    "Addr",
    "Device Type",
    "Device Id",
    "Total Allocated",
    "Total Reserved",
)
"""Arguments that are integers: their columns in the matrix of arguments, from 0."""

TRIPLES = len(INTEGER_KEYS)
"""Column of the first extent of the grid; those of the block follow."""
ARGUMENT_COLUMNS = TRIPLES + 6

SHAPE_KEYS = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
_OTHER_KEYS = ("grid", "block", *SHAPE_KEYS, "Input dims", "kernel_file", "Call stack", "Collective name", "finished")
KEY_GRID = KEY_FIRST_ARGUMENT + TRIPLES
KEY_BLOCK, KEY_INPUT_DIMS = KEY_GRID + 1, KEY_GRID + 2
KEY_INPUT_DIMS_LOWER = KEY_GRID + 6
KEY_KERNEL_FILE, KEY_CALL_STACK, KEY_COLLECTIVE, KEY_FINISHED = range(KEY_GRID + 7, KEY_GRID + 11)

KEYS = [key.encode() for key in (*EVENT_KEYS, *INTEGER_KEYS, *_OTHER_KEYS)]
LONGEST_KEY = max(map(len, KEYS))

# Tables that follow in the state: what each byte is inside a string; keys by hash, their lengths, places and letters.
LETTERS, KEY_SLOTS, KEY_LENGTHS, KEY_PLACES, KEY_TEXT = 64, 320, 576, 640, 704
QUOTE, BACKSLASH, CONTROL, FOREIGN = 1, 2, 3, 4


def new_state() -> NDArray[np.int64]:
    """The state before the first event, with the tables."""
    state = np.zeros(KEY_TEXT + sum(map(len, KEYS)), np.int64)
    letters, slots = state[LETTERS:KEY_SLOTS], state[KEY_SLOTS:KEY_LENGTHS]
    letters[:32], letters[128:], letters[ord('"')], letters[ord("\\")] = CONTROL, FOREIGN, QUOTE, BACKSLASH
    slots[:] = -1
    place = 0
    for number, key in enumerate(KEYS):
        slot = (len(key) * 37 + key[0] * 5 + key[len(key) >> 1] * 11 + key[-1] * 3) & 255  # as the scanner does
        while slots[slot] >= 0:
            slot = (slot + 1) & 255
        slots[slot] = number
        state[KEY_LENGTHS + number], state[KEY_PLACES + number] = len(key), place
        state[KEY_TEXT + place : KEY_TEXT + place + len(key)] = list(key)
        place += len(key)
    # The first string is the empty one, the first shapes are none, the first row of arguments has none.
    state[N_STRINGS] = state[N_SHAPES] = state[N_ARGS] = 1
    return state
