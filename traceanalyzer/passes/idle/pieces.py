"""Pieces of gaps: what every account of idle time is made of."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.schema.batches import is_single

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Pieces:
    """Pieces of gaps in the order of gaps and time; `node` is -1 for an empty stack.

    `gap` numbers the gaps of the device; `cause` and `reason` are `Cause` and `Reason`; `refill` marks what a
    synchronisation costs after it returned, `sampled` where a sample stands for what happened.
    """

    gap: Ints
    start: Ints
    end: Ints
    cause: NDArray[np.int8]
    reason: NDArray[np.int8]
    node: NDArray[np.int32]
    refill: NDArray[np.bool_]
    sampled: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.gap)

    @property
    def length(self) -> Ints:
        """Duration of each in ns."""
        return self.end - self.start

    def take(self, rows: NDArray[Any] | slice) -> "Pieces":
        """Some of the pieces."""
        return Pieces(*(_taken(getattr(self, name), rows) for name in Pieces.__slots__))


def _taken(values: NDArray[Any], rows: NDArray[Any] | slice) -> NDArray[Any]:
    if not is_single(values) or isinstance(rows, slice) or not len(values):
        return values[rows]
    count = int(rows.sum()) if rows.dtype == np.bool_ else len(rows)
    return np.broadcast_to(values[:1], (count,)) if count else values[:0]


def made(
    gap: NDArray[Any],
    start: Ints,
    end: Ints,
    cause: NDArray[Any] | int,
    node: NDArray[Any] | int = -1,
    *,
    reason: NDArray[Any] | int = 0,
    refill: NDArray[Any] | bool = False,
    sampled: NDArray[Any] | bool = False,
) -> Pieces:
    """Pieces of positive length; single values hold for all."""
    long = end > start
    every = bool(long.all())
    count = len(start) if every else int(long.sum())

    def column(values: NDArray[Any] | int | bool, kind: type[Any]) -> NDArray[Any]:
        if not isinstance(values, np.ndarray):
            return np.broadcast_to(np.array([values], kind), (count,))
        return (values if every else _taken(values, long)).astype(kind, copy=False)

    return Pieces(
        column(gap, np.int64),
        column(start, np.int64),
        column(end, np.int64),
        column(cause, np.int8),
        column(reason, np.int8),
        column(node, np.int32),
        column(refill, np.bool_),
        column(sampled, np.bool_),
    )


def joined(parts: Sequence[Pieces]) -> Pieces:
    """Pieces of several origins, in order."""
    parts = [part for part in parts if len(part)] or list(parts[:1])
    if len(parts) == 1:
        return parts[0]
    start = np.concatenate([part.start for part in parts])
    order = np.argsort(start, kind="stable")  # gaps follow each other in time
    columns = [_joined([getattr(part, name) for part in parts], order) for name in Pieces.__slots__ if name != "start"]
    return Pieces(columns[0], start[order], *columns[1:])


def _joined(columns: list[NDArray[Any]], order: NDArray[np.intp]) -> NDArray[Any]:
    if all(is_single(column) and column[0] == columns[0][0] for column in columns):
        return np.broadcast_to(columns[0][:1], (len(order),))
    return np.concatenate(columns)[order]


def merged(pieces: Pieces) -> Pieces:
    """Equal neighbouring pieces of a gap become one."""
    if len(pieces) < 2:
        return pieces
    same = pieces.start[1:] == pieces.end[:-1]
    for name in ("gap", "node", "cause", "reason", "refill", "sampled"):
        values = getattr(pieces, name)
        if not is_single(values):
            same &= values[1:] == values[:-1]
    if not same.any():
        return pieces
    first = np.flatnonzero(np.append(True, ~same))
    last = np.append(first[1:] - 1, len(pieces) - 1)
    out = pieces.take(first)
    return replace(out, end=pieces.end[last])


def checked(chunks: Iterable[Pieces], gap_start: Ints, gap_end: Ints) -> Iterator[Pieces]:
    """The same chunks; at their end it is sure that the pieces of every gap partition it.

    Raises `AssertionError` if they do not: a fault of this program, never of the input.
    """
    place, at = -1, None
    for pieces in chunks:
        if not len(pieces):
            continue
        fresh = np.append(pieces.gap[0] != place, pieces.gap[1:] != pieces.gap[:-1])
        begins = np.where(fresh, gap_start[pieces.gap], np.append(at or 0, pieces.end[:-1]))
        over = pieces.gap[np.flatnonzero(fresh)] - np.append(place, pieces.gap[:-1])[fresh]
        ended = np.append(at or 0, pieces.end[:-1])[fresh]
        before = np.append(place, pieces.gap[:-1])[fresh]
        closed = (before < 0) | (ended == gap_end[before])
        if (begins != pieces.start).any() or (over != 1).any() or not closed.all():
            raise AssertionError("the pieces of a gap do not add up to it")
        place, at = int(pieces.gap[-1]), int(pieces.end[-1])
        yield pieces
    if place != len(gap_start) - 1 or (place >= 0 and at != gap_end[place]):
        raise AssertionError("the pieces of the gaps do not add up to them")
