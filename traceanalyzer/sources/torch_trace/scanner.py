"""The compiled scanner as a function of a text, where it can be had at all."""

import gc
import os
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from traceanalyzer.sources.torch_trace import scan_layout as at
from traceanalyzer.sources.torch_trace.rows import Rows
from traceanalyzer.sources.torch_trace.scanned import ScannedBlock

_MOST_WORKERS = 4
_MANY_ODD = 64
_SIZES = (80, 1 << 14), (10, 1 << 18)
"""Bytes an event and most distinct strings that rooms are made for, until one is large enough."""


class _Room:
    """The arrays that one call of the scanner fills. They are used again: fresh memory takes its time."""

    def __init__(self, n_events: int, n_strings: int) -> None:
        self.n_events, self.n_strings = n_events, n_strings
        size = 1 << (2 * n_strings).bit_length()
        self._state = at.new_state()
        self._state[at.EVENTS_ROOM] = n_events
        self._state[at.STRINGS_ROOM] = self._state[at.SHAPES_ROOM] = n_strings
        self._state[at.TABLE_MASK] = self._state[at.SHAPE_TABLE_MASK] = size - 1
        self._tables = np.empty((2, size), np.int32)
        events, arguments = (
            np.empty((at.COLUMNS, n_events), np.int64),
            np.empty((n_events + 2, at.ARGUMENT_COLUMNS), np.int64),
        )
        strings, shapes = np.empty((n_strings, 3), np.int64), np.empty((n_strings, 4), np.int64)
        arguments[0], strings[0], shapes[0] = at.ABSENT, 0, -1
        self._matrices = events, arguments, strings, shapes

    def scan(self, function: Callable[..., int], text: bytes, start: int, stop: int) -> tuple[int, Any, list[Any]]:
        """Calls the scanner: what it returned, the state afterwards, and the filled parts of the matrices."""
        state, (events, arguments, strings, shapes) = self._state.copy(), self._matrices
        state[at.LAST_WORD] = len(text) - 8
        self._tables.fill(-1)
        status = function(
            np.frombuffer(text, np.uint8), start, stop, state, events.ravel(), arguments.ravel(), self._tables[0],
            strings.ravel(), self._tables[1], shapes.ravel(),
        )  # fmt: skip
        filled = [
            events[:, : state[at.N_EVENTS]],
            arguments[: state[at.N_ARGS]],
            strings[: state[at.N_STRINGS]],
            shapes[: state[at.N_SHAPES]],
        ]
        return status, state, filled


@dataclass(frozen=True, slots=True)
class Scanned:
    """Events of a block that was proven to be whole events, and the place behind the end of their list, if it is in.

    They are good until the scanner is given their room back.
    """

    rows: Rows
    array_end: int | None
    room: _Room


class Scanner:
    """Scans texts; its calls may run in several threads at once."""

    def __init__(self, function: Callable[..., int]) -> None:
        self._function = function
        self._rooms: list[_Room] = []
        self(b'{"ph":"X"}', 0, 10)  # compiles it, or loads what was compiled before

    def __call__(self, text: bytes, start: int, stop: int) -> Scanned | None:
        """The events between two places; None where they are not proven or better decoded in the ordinary way."""
        for bytes_an_event, most_strings in _SIZES:
            room = self._room((stop - start) // bytes_an_event + 16, min(most_strings, stop - start + 2))
            status, state, matrices = room.scan(self._function, text, start, stop)
            if status != at.NO_ROOM:
                break
        n_events, odd = int(state[at.N_EVENTS]), int(state[at.N_ODD])
        try:
            if status != at.PROVEN or (odd > _MANY_ODD and odd > n_events // 8):
                raise ValueError("not proven, or not worth it")  # noqa: TRY301
            if state[at.NON_ASCII]:
                str(memoryview(text)[start:stop], "utf-8")
            rows = ScannedBlock(text, *matrices).rows(int(state[at.N_FLOWS]))
        except ValueError:
            self._rooms.append(room)
            return None
        return Scanned(rows, int(state[at.ARRAY_END]) or None, room)

    def _room(self, n_events: int, n_strings: int) -> _Room:
        """A room that is free and large enough, or a new one."""
        try:
            room = self._rooms.pop()
        except IndexError:
            return _Room(n_events, n_strings)
        return room if room.n_events >= n_events and room.n_strings >= n_strings else _Room(n_events, n_strings)

    def give_back(self, scanned: Scanned) -> None:
        """Takes the room of events that nobody looks at any more."""
        self._rooms.append(scanned.room)

    def forget(self) -> None:
        """Frees the memory of all rooms."""
        self._rooms.clear()


@lru_cache
def load_scanner() -> Scanner | None:
    """The scanner; None where numba is missing, or cannot compile or keep what it compiled."""
    collecting = gc.isenabled()
    gc.disable()  # half a million objects are made, and stay
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from traceanalyzer.sources.torch_trace.scan import scan

            return Scanner(scan)
    except Exception:  # whatever is wrong with an optional library: all can be read without it
        return None
    finally:
        if collecting:
            gc.freeze()
            gc.enable()


class ScanPool:
    """Threads that scan."""

    def __init__(self, scanner: Scanner, workers: int | None = None) -> None:
        self.workers = workers or min(_processors(), _MOST_WORKERS)
        self._scanner = scanner
        self._threads = ThreadPoolExecutor(self.workers, "scan")

    def submit(self, text: bytes, stop: int) -> Future[Scanned | None] | None:
        """Begins to scan a text up to a place; None where no thread can be started."""
        try:
            return self._threads.submit(self._attempt, text, stop)
        except RuntimeError:
            return None

    def _attempt(self, text: bytes, stop: int) -> Scanned | None:
        try:
            return self._scanner(text, 0, stop)
        except Exception:  # such as want of memory: the ordinary way needs less, or says so
            return None

    def give_back(self, scanned: Scanned) -> None:
        """Takes the room of events that nobody looks at any more."""
        self._scanner.give_back(scanned)

    def close(self) -> None:
        """Waits for what is being scanned and drops the rest."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._scanner.forget()


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
