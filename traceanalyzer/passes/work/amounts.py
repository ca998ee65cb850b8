"""What an estimate of work consists of."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from traceanalyzer.passes.limits.families import Family
from traceanalyzer.passes.work.arguments import LARGEST, Arguments, Tensor, UnrecordedError
from traceanalyzer.passes.work.precisions import Precision

ONCE = "bytes: each operand read once, the result written once"
"""Compulsory traffic: a lower bound on what memory delivers, caches or not."""


@dataclass(frozen=True, slots=True)
class Work:
    """How much an operator has to do. A multiply-add counts as two FLOP; bytes are compulsory traffic only."""

    family: Family
    flop: float
    """Floating-point operations, 0 for pure data movement. Operations on integers count alike."""
    bytes_read: int
    bytes_written: int
    dtype: str | None
    """Precision of the matrices or of the input: fp32, bf16, fp8, int64; None if not recorded."""
    note: str | None = ONCE
    """What the estimate assumes."""


Estimator: TypeAlias = Callable[[Arguments], Work]
"""Work by the arguments of an operator; UnrecordedError where they do not tell."""


def work(
    family: Family,
    flop: int,
    bytes_read: int,
    bytes_written: int,
    precision: Precision,
    *assumptions: str,
) -> Work:
    """An estimate; UnrecordedError if it is larger than anything real."""
    if max(flop, bytes_read, bytes_written) > LARGEST:
        raise UnrecordedError("an amount is too large")
    note = "; ".join((ONCE, *assumptions))
    return Work(family, float(flop), bytes_read, bytes_written, precision.key or None, note)


def read_once(tensors: Sequence[Tensor | None]) -> int:
    """Bytes behind those tensors that are there."""
    return sum(tensor.distinct_bytes for tensor in tensors if tensor is not None)


def multiply_adds(count: int, precision: Precision) -> int:
    """FLOP of so many multiply-adds: two each; of complex numbers four times as many."""
    return count * (8 if precision.is_complex else 2)
