"""How the C library (glibc only) hands memory back to the system: that decides how much a long ingest seems to need."""

import ctypes
import sys
from functools import cache

_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8
_M_TRIM_THRESHOLD = -1
_LARGE_BYTES = 9 << 20  # blocks of text, which are used again and again, are smaller
_KEPT_BYTES = 8 << 20  # free at the end of the heap: it is soon used again, and taking it anew costs time


@cache
def _c_library() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if sys.platform.startswith("linux") else None


def give_back_large_arrays() -> None:
    """From now on arrays of many megabytes return to the system when they are freed.

    By itself glibc raises the size from which it does that whenever a large array is freed, up to 32 MB, and then
    keeps holes of that size, and threads each keep holes of their own. Settings of the whole process: for programs,
    not for libraries.
    """
    mallopt = getattr(_c_library(), "mallopt", None)  # other C libraries have none
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_M_ARENA_MAX, 2)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


def give_back_freed() -> None:
    """Returns to the system what was freed so far."""
    malloc_trim = getattr(_c_library(), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)
