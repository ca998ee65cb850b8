"""Arguments of an operator as torch.profiler recorded them: shapes, types, strides and values. Files are hostile."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from traceanalyzer.passes.work.precisions import UNRECORDED, Precision, precision_of, precision_of_scalar_type

LARGEST = 2**62
"""No count of elements, bytes or operations is larger; what claims to be is no measurement."""
_MOST_DIMS = 64
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_TRUTHS = {"True": True, "False": False}


class UnrecordedError(Exception):
    """A trace lacks what an estimate needs, or says what cannot be."""


def product(factors: Sequence[int]) -> int:
    """Product of sizes; UnrecordedError if it is larger than anything real, or one is no size."""
    if any(factor < 0 for factor in factors):
        raise UnrecordedError("a size is negative")
    if 0 in factors:
        return 0
    result = 1
    for factor in factors:
        result *= factor
        if result > LARGEST:
            raise UnrecordedError("a size is too large")
    return result


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor among the arguments."""

    dims: tuple[int, ...]
    strides: tuple[int, ...] | None
    precision: Precision

    @property
    def elements(self) -> int:
        """Number of elements."""
        return product(self.dims)

    @property
    def bytes(self) -> int:
        """Size of a tensor of this shape that has memory of its own for each element."""
        return self.elements * self.precision.bytes

    @property
    def distinct_bytes(self) -> int:
        """Size of the memory behind it: expanded (stride 0) dimensions and overlapping windows count once."""
        elements = self.elements
        if self.strides is None or elements == 0:
            return self.bytes
        apart = product([dim for dim, stride in zip(self.dims, self.strides, strict=True) if stride])
        reach = 1 + sum((dim - 1) * stride for dim, stride in zip(self.dims, self.strides, strict=True))
        return min(apart, reach) * self.precision.bytes


class Arguments:
    """What a trace says of the arguments of one call of an operator, by position."""

    def __init__(self, recorded: dict[str, Any], unrecorded: Precision) -> None:
        self._unrecorded = unrecorded
        self._dims = _list_at(recorded, "Input Dims") or _list_at(recorded, "Input dims")  # the latter in 2020
        self._types = _list_at(recorded, "Input type")
        self._strides = _list_at(recorded, "Input Strides")
        self._values = _list_at(recorded, "Concrete Inputs")

    @classmethod
    def read(cls, text: str, unrecorded: Precision = UNRECORDED) -> "Arguments":
        """Arguments from the JSON text of `cpu_events.args`; tensors without a recorded type have `unrecorded`."""
        try:
            recorded = msgspec.json.decode(text)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise UnrecordedError("not JSON") from error
        if not isinstance(recorded, dict):
            raise UnrecordedError("not an object")
        return cls(recorded, unrecorded)

    @property
    def count(self) -> int:
        """Number of arguments."""
        return len(self._dims)

    @property
    def has_values(self) -> bool:
        """Whether the values of arguments that are no tensors were recorded."""
        return bool(self._values)

    @property
    def has_untyped(self) -> bool:
        """Whether there is a tensor whose type was not recorded."""
        return any(self._tensors_at(at) and not self._typed(at) for at in range(self.count))

    def find(self, at: int) -> Tensor | None:
        """Tensor at a position, None if there is none or the trace does not tell."""
        dims = _integers(_at(self._dims, at))
        precision = self._precision(at)
        # Without dimensions it is a tensor only if it has a type: all else is recorded as [] too.
        if dims is None or precision is None or (not dims and not self._typed(at)):
            return None
        return Tensor(dims, _strides(_at(self._strides, at), dims), precision)

    def tensor(self, at: int) -> Tensor:
        """Tensor at a position."""
        found = self.find(at)
        if found is None:
            raise UnrecordedError(f"no tensor at {at}")
        return found

    def find_tensors(self, at: int) -> tuple[Tensor, ...]:
        """Tensors of the list at a position; none if there is no list or the trace does not tell."""
        shapes = _at(self._dims, at)
        precision = self._precision(at)
        if not isinstance(shapes, list) or precision is None:
            return ()
        strides = _at(self._strides, at)
        found = []
        for number, shape in enumerate(shapes):
            dims = _integers(shape)
            if dims is None:
                return ()
            found.append(Tensor(dims, _strides(_at(strides, number), dims), precision))
        return tuple(found)

    def tensors(self, at: int) -> tuple[Tensor, ...]:
        """Tensors of the list at a position."""
        found = self.find_tensors(at)
        if not found:
            raise UnrecordedError(f"no list of tensors at {at}")
        return found

    def all_tensors(self) -> list[Tensor]:
        """Every tensor, in order, without those in lists."""
        return [tensor for at in range(self.count) if (tensor := self.find(at)) is not None]

    def result_type(self, after: int) -> Precision | None:
        """Type of the tensor that the caller gave for the result: the last argument, if one after a position."""
        given = self.find(self.count - 1) if self.count - 1 > after else None
        return None if given is None else given.precision

    def text(self, at: int) -> str:
        """Value at a position as it was recorded, empty if it was not."""
        value = _at(self._values, at)
        return value if isinstance(value, str) else ""

    def find_integers(self, at: int) -> tuple[int, ...] | None:
        """Integers of the list, or the one integer, at a position; None if the trace does not tell."""
        parts = _parts(self.text(at))
        if parts is None or not all(_INTEGER.fullmatch(part) for part in parts):
            return None
        return tuple(int(part) for part in parts)

    def integers(self, at: int) -> tuple[int, ...]:
        """Integers of the list, or the one integer, at a position."""
        found = self.find_integers(at)
        if found is None:
            raise UnrecordedError(f"no integers at {at}")
        return found

    def find_flags(self, at: int) -> tuple[bool, ...] | None:
        """Truth values of the list, or the one, at a position; None if the trace does not tell."""
        parts = _parts(self.text(at))
        if not parts or not all(part in _TRUTHS for part in parts):
            return None
        return tuple(_TRUTHS[part] for part in parts)

    def flags(self, at: int, count: int) -> tuple[bool, ...]:
        """Truth values at a position, of which there must be so many."""
        found = self.find_flags(at)
        if found is None or len(found) != count:
            raise UnrecordedError(f"no {count} truth values at {at}")
        return found

    def find_type(self, at: int) -> Precision | None:
        """Type that the operator was told at a position, None if it was not."""
        number = self.find_integers(at)
        return precision_of_scalar_type(number[0]) if number else None

    def _typed(self, at: int) -> bool:
        """Whether the type of the tensors at a position was recorded."""
        return precision_of(self._type(at)) is not None

    def _type(self, at: int) -> str:
        text = _at(self._types, at)
        return text if isinstance(text, str) else ""

    def _precision(self, at: int) -> Precision | None:
        """Type of the tensors at a position; None for one that is not known, which must not be guessed."""
        text = self._type(at)
        known = precision_of(text)
        if known is None and text in ("", "TensorList", "OptionalTensorList"):
            return self._unrecorded
        return known

    def _tensors_at(self, at: int) -> tuple[Tensor, ...]:
        """The tensor or the tensors of the list at a position."""
        single = self.find(at)
        return self.find_tensors(at) if single is None else (single,)


def _list_at(recorded: dict[str, Any], key: str) -> list[Any]:
    value = recorded.get(key)
    return value if isinstance(value, list) else []


def _at(values: object, at: int) -> object:
    return values[at] if isinstance(values, list) and 0 <= at < len(values) else None


def _integers(values: object) -> tuple[int, ...] | None:
    """Sizes, None if they are none: truth values are not, though Python counts them as integers."""
    if not isinstance(values, list) or len(values) > _MOST_DIMS:
        return None
    return tuple(values) if all(type(value) is int and 0 <= value <= LARGEST for value in values) else None


def _strides(values: object, dims: tuple[int, ...]) -> tuple[int, ...] | None:
    strides = _integers(values)
    return strides if strides is not None and len(strides) == len(dims) else None


def _parts(text: str) -> list[str] | None:
    """Parts of the text of a list, or of one value; None for no text."""
    if not text:
        return None
    inside = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    return [part.strip() for part in inside.split(",")] if inside.strip() else []
