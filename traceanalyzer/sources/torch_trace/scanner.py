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

SCAN_FROM_BYTES = 96 << 20
"""Texts from this size on are scanned: loading the compiler's library takes as long as decoding some 60 MB."""
_MOST_WORKERS = 4
_MANY_ODD = 64


@dataclass(frozen=True, slots=True)
class Scanned:
    """Events of a block that was proven to be whole events, and the place behind the end of their list, if it is in."""

    rows: Rows
    array_end: int | None


class Scanner:
    """Scans texts; its calls may run in several threads at once."""

    def __init__(self, function: Callable[..., int]) -> None:
        self._function = function
        self(b'{"ph":"X"}', 0, 10)  # compiles it, or loads what was compiled before

    def __call__(self, text: bytes, start: int, stop: int) -> Scanned | None:
        """The events between two places; None where they are not proven or better decoded in the ordinary way."""
        data = np.frombuffer(text, np.uint8)
        for bytes_an_event, most_strings in ((80, 1 << 14), (12, 1 << 17), (2, 1 << 22)):
            room = (stop - start) // bytes_an_event + 16
            status, state, matrices = self._scan(data, start, stop, room, min(most_strings, stop - start + 2))
            if status != at.NO_ROOM:
                break
        n_events, odd = int(state[at.N_EVENTS]), int(state[at.N_ODD])
        if status != at.PROVEN or (odd > _MANY_ODD and odd > n_events // 8):
            return None
        try:
            if state[at.NON_ASCII]:
                str(memoryview(text)[start:stop], "utf-8")
            rows = ScannedBlock(text, *matrices).rows(int(state[at.N_FLOWS]))
        except ValueError:
            return None
        return Scanned(rows, int(state[at.ARRAY_END]) or None)

    def _scan(self, data: Any, start: int, stop: int, room: int, n_strings: int) -> tuple[int, Any, list[Any]]:
        state = at.new_state()
        state[at.LAST_WORD] = len(data) - 8
        size = 1 << (2 * n_strings).bit_length()
        state[at.EVENTS_ROOM], state[at.STRINGS_ROOM], state[at.SHAPES_ROOM] = room, n_strings, n_strings
        state[at.TABLE_MASK] = state[at.SHAPE_TABLE_MASK] = size - 1
        events, arguments = np.empty((room, at.COLUMNS), np.int64), np.empty((room + 2, at.ARGUMENT_COLUMNS), np.int64)
        strings, shapes = np.empty((n_strings, 3), np.int64), np.empty((n_strings, 4), np.int64)
        arguments[0], strings[0], shapes[0] = at.ABSENT, 0, -1
        tables = np.full((2, size), -1, np.int32)
        status = self._function(
            data, start, stop, state, events.ravel(), arguments.ravel(), tables[0], strings.ravel(), tables[1],
            shapes.ravel(),
        )  # fmt: skip
        counts = (at.N_EVENTS, at.N_ARGS, at.N_STRINGS, at.N_SHAPES)
        matrices = (events, arguments, strings, shapes)
        return status, state, [matrix[: state[n]] for matrix, n in zip(matrices, counts, strict=True)]


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

    def close(self) -> None:
        """Waits for what is being scanned and drops the rest."""
        self._threads.shutdown(wait=True, cancel_futures=True)


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
