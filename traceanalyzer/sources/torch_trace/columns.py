"""Columns of batches: lists of decoded values -> numpy arrays, with masks where values are null."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from traceanalyzer.schema.sink import Texts, Values
from traceanalyzer.sources.torch_trace.records import ABSENT, whole_number

_INT64_MAX = (1 << 63) - 1
OWN_NUMBERS = -(1 << 40)
"""Numbers that we give to texts begin here and go down: far from every id that a writer casts to 32 bits."""


class Identities:
    """Processes and threads as numbers: their own ids, or negative numbers of ours where the file has a text."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}

    def number(self, value: int | str | None) -> int:
        """The number of one id; `ABSENT` for None."""
        if value is None:
            return ABSENT
        number = whole_number(value) if not isinstance(value, str) or not value.startswith("stream ") else None
        if number is not None and OWN_NUMBERS < number <= _INT64_MAX:
            return number
        return self.texts.setdefault(str(value), OWN_NUMBERS - len(self.texts))

    def numbers(self, values: list[Any]) -> NDArray[np.int64]:
        """The numbers of many ids."""
        if set(map(type, values)) == {int}:
            with suppress(OverflowError):
                numbers = np.array(values, np.int64)
                if numbers.min() > OWN_NUMBERS:
                    return numbers
        known = {value: self.number(value) for value in dict.fromkeys(values)}
        return np.array([known[value] for value in values], np.int64)


def integers(values: Sequence[Any], absent: int = ABSENT) -> np.ma.MaskedArray[Any, np.dtype[np.int64]]:
    """Integers, null where they are absent, no integers or beyond 64 bits."""
    array = _plain_integers(values)
    return np.ma.MaskedArray(array, (array == ABSENT) | (array == absent))


def _plain_integers(values: Sequence[Any]) -> NDArray[np.int64]:
    if set(map(type, values)) == {int}:  # numpy would take texts, decimals and truths as well
        with suppress(OverflowError):
            return np.array(values, np.int64)
    numbers = [whole_number(value) for value in values]
    return np.array([ABSENT if n is None or abs(n) > _INT64_MAX else n for n in numbers], np.int64)


class PerText:
    """What a function says of each text of a dictionary, called once for each: an array by code that grows with it."""

    def __init__(self, texts: Texts, function: Callable[[str], int], dtype: DTypeLike) -> None:
        self._texts = texts
        self._function = function
        self._known = np.zeros(0, dtype)

    def __getitem__(self, numbers: NDArray[np.int32]) -> NDArray[Any]:
        texts, known = self._texts.all, self._known
        if len(known) < len(texts):
            more = np.array([self._function(text) for text in texts[len(known) :]], known.dtype)
            self._known = known = np.concatenate((known, more))
        return known[numbers]


def narrow(values: np.ma.MaskedArray[Any, Any]) -> np.ma.MaskedArray[Any, np.dtype[np.int32]]:
    """The same as 32-bit integers, null where they do not fit."""
    data = values.data
    outside = np.abs(data) > (1 << 31) - 1
    return np.ma.MaskedArray(np.where(outside, 0, data).astype(np.int32), np.ma.getmaskarray(values) | outside)


def unless(values: np.ma.MaskedArray[Any, Any], null: NDArray[np.bool_]) -> np.ma.MaskedArray[Any, Any]:
    """The same values, also null where told."""
    return np.ma.MaskedArray(values.data, np.ma.getmaskarray(values) | null)


def either(first: np.ma.MaskedArray[Any, Any], second: np.ma.MaskedArray[Any, Any]) -> np.ma.MaskedArray[Any, Any]:
    """The first value, or the second where the first is null."""
    missing = np.ma.getmaskarray(first)
    return np.ma.MaskedArray(np.where(missing, second.data, first.data), missing & np.ma.getmaskarray(second))


def codes(texts: Texts, values: Iterable[str | None], count: int) -> NDArray[np.int32]:
    """Codes of texts, of which none is expected to be None."""
    try:
        return np.fromiter(map(texts.__getitem__, values), np.int32, count)  # type: ignore[arg-type]
    except (TypeError, AttributeError):
        return texts.codes(values, count)


def with_values(columns: dict[str, Values]) -> dict[str, Values]:
    """The columns that have any value at all."""
    return {
        name: values
        for name, values in columns.items()
        if not (isinstance(values, np.ma.MaskedArray) and len(values) and np.ma.getmaskarray(values).all())
    }
