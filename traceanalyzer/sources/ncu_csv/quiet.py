"""Keeps to itself what a library written in C prints past Python."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_STDERR = 2


@contextmanager
def quiet_stderr() -> Iterator[None]:
    """Whatever is written to the descriptor of stderr meanwhile goes nowhere; afterwards it is what it was."""
    _flush()
    try:
        before = os.dup(_STDERR)
    except OSError:  # it is closed: nothing can be printed
        yield
        return
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, _STDERR)
        os.close(nowhere)
        yield
        _flush()
    finally:
        os.dup2(before, _STDERR)
        os.close(before)


def _flush() -> None:
    if sys.stderr is not None:
        sys.stderr.flush()
