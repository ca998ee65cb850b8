"""Events as columns: what the readers of the tables work on, whichever decoder made them."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import DTypeLike, NDArray

from traceanalyzer.schema.sink import Texts
from traceanalyzer.sources.torch_trace.columns import Identities, codes, integers
from traceanalyzer.sources.torch_trace.records import ABSENT, Event, arguments_of
from traceanalyzer.sources.torch_trace.times import nanoseconds

Index = NDArray[np.intp]
Integers = NDArray[np.int64]
MaskedIntegers = np.ma.MaskedArray[Any, np.dtype[np.int64]]
Identity = int | str | None
Record = TypeVar("Record", bound=msgspec.Struct)

SEPARATOR = b"\x1f"
"""Stands between the raw texts of one key of `Arguments.shapes`; it cannot stand in JSON text."""


_NO_TRIPLE = [0, 0, 0]
_MOST = 10**300  # what is more may not be a double


class Arguments(ABC):
    """The arguments of some rows as columns. Fields have the names of the record that was asked for."""

    @abstractmethod
    def integers(self, field: str, absent: int = ABSENT, wrap: bool = False) -> MaskedIntegers:
        """Integers, null where they are absent or no integers; `wrap` makes those beyond 63 bits negative."""

    @abstractmethod
    def values(self, field: str) -> list[Any]:
        """Integers or texts as the file has them; `ABSENT` or None where there is none."""

    @abstractmethod
    def numbers(self, field: str) -> NDArray[np.float64]:
        """Numbers, 0 where they are absent."""

    @abstractmethod
    def triples(self, field: str) -> tuple[Integers, NDArray[np.bool_]]:
        """Lists of three integers as rows; second: where they are no such lists."""

    @abstractmethod
    def having(self, field: str) -> Index:
        """The rows that have a text, in `collective` also an empty one (and in `finished` the value false)."""

    @abstractmethod
    def shapes(self, known: dict[bytes, int]) -> NDArray[np.int32]:
        """The value that `known` has of the raw texts of dims, types, strides and inputs."""


class Rows(ABC):
    """Some events in the order of the file."""

    flows = 0
    """Events of flows that were counted and left out."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, index: Index) -> "Rows":
        """These rows only."""

    @abstractmethod
    def by_phase(self) -> dict[str, Index]:
        """The rows of every phase that occurs."""

    @abstractmethod
    def starts(self) -> tuple[Integers, NDArray[np.bool_]]:
        """When they start in nanoseconds; second: which of these could be read."""

    @abstractmethod
    def lengths(self) -> tuple[Integers, NDArray[np.bool_]]:
        """How long they take in nanoseconds, 0 if that is not said; second: which of these could be read."""

    @abstractmethod
    def names(self, texts: Texts) -> NDArray[np.int32]:
        """Codes of the names; of the empty text where there is none."""

    @abstractmethod
    def categories(self, texts: Texts) -> NDArray[np.int32]:
        """Codes of the categories; of the empty text where there is none."""

    @abstractmethod
    def name_texts(self) -> list[str]:
        """The names."""

    @abstractmethod
    def category_texts(self) -> list[str]:
        """The categories."""

    @abstractmethod
    def of_categories(self, function: Callable[[str], int], dtype: DTypeLike) -> NDArray[Any]:
        """What a function says of each category."""

    @abstractmethod
    def process_ids(self) -> list[Identity]:
        """Ids of processes as the file has them."""

    @abstractmethod
    def thread_ids(self) -> list[Identity]:
        """Ids of threads as the file has them."""

    @abstractmethod
    def processes(self, identities: Identities) -> Integers:
        """Numbers of processes; `ABSENT` where there is none."""

    @abstractmethod
    def threads(self, identities: Identities) -> Integers:
        """Numbers of threads; `ABSENT` where there is none."""

    @abstractmethod
    def arguments(self, kind: type[msgspec.Struct]) -> Arguments:
        """The arguments that a kind of record has, as columns."""

    @abstractmethod
    def records(self, kind: type[Record]) -> list[Record]:
        """The arguments as records of one kind: for few rows."""


class EventRows(Rows):
    """Rows made of decoded events."""

    def __init__(self, events: list[Event]) -> None:
        self.events = events

    def __len__(self) -> int:
        return len(self.events)

    def take(self, index: Index) -> "EventRows":
        """These rows only."""
        return EventRows([self.events[i] for i in index.tolist()])

    def by_phase(self) -> dict[str, Index]:
        """The rows of every phase that occurs."""
        return places([event.ph for event in self.events])

    def starts(self) -> tuple[Integers, NDArray[np.bool_]]:
        """When they start."""
        return nanoseconds([event.ts for event in self.events])

    def lengths(self) -> tuple[Integers, NDArray[np.bool_]]:
        """How long they take."""
        return nanoseconds([event.dur or b"0" for event in self.events])

    def names(self, texts: Texts) -> NDArray[np.int32]:
        """Codes of the names."""
        return codes(texts, [event.name or "" for event in self.events], len(self.events))

    def categories(self, texts: Texts) -> NDArray[np.int32]:
        """Codes of the categories."""
        return codes(texts, [event.cat or "" for event in self.events], len(self.events))

    def name_texts(self) -> list[str]:
        """The names."""
        return [event.name or "" for event in self.events]

    def category_texts(self) -> list[str]:
        """The categories."""
        return [event.cat or "" for event in self.events]

    def of_categories(self, function: Callable[[str], int], dtype: DTypeLike) -> NDArray[Any]:
        """What a function says of each category."""
        return np.fromiter(map(function, [event.cat or "" for event in self.events]), dtype, len(self.events))

    def process_ids(self) -> list[Identity]:
        """Ids of processes."""
        return [event.pid for event in self.events]

    def thread_ids(self) -> list[Identity]:
        """Ids of threads."""
        return [event.tid for event in self.events]

    def processes(self, identities: Identities) -> Integers:
        """Numbers of processes."""
        return identities.numbers(self.process_ids())

    def threads(self, identities: Identities) -> Integers:
        """Numbers of threads."""
        return identities.numbers(self.thread_ids())

    def arguments(self, kind: type[msgspec.Struct]) -> "RecordArguments":
        """The arguments that a kind of record has."""
        return RecordArguments(self.records(kind))

    def records(self, kind: type[Record]) -> list[Record]:
        """The arguments as records of one kind."""
        return arguments_of([event.args for event in self.events], kind)


class RecordArguments(Arguments):
    """Arguments made of decoded records."""

    def __init__(self, records: list[Any]) -> None:
        self.records = records

    def values(self, field: str) -> list[Any]:
        """Values of a field."""
        return list(map(attrgetter(field), self.records))

    def integers(self, field: str, absent: int = ABSENT, wrap: bool = False) -> MaskedIntegers:
        """Integers of a field."""
        values = self.values(field)
        return integers([_signed(value) for value in values] if wrap else values, absent)

    def numbers(self, field: str) -> NDArray[np.float64]:
        """Numbers of a field."""
        values = [value or 0.0 for value in self.values(field)]
        try:
            return np.array(values, np.float64)
        except OverflowError:
            return np.array([value if abs(value) < _MOST else 0.0 for value in values], np.float64)

    def triples(self, field: str) -> tuple[Integers, NDArray[np.bool_]]:
        """Lists of three integers of a field."""
        values = self.values(field)
        plain = [value if isinstance(value, list) and len(value) == 3 else _NO_TRIPLE for value in values]
        try:
            array = np.array(plain, np.int64)
        except OverflowError:
            plain = [value if max(map(abs, value)) < 1 << 63 else _NO_TRIPLE for value in plain]
            array = np.array(plain, np.int64)
        return array.reshape(-1, 3), np.array([value is _NO_TRIPLE for value in plain], np.bool_)

    def having(self, field: str) -> Index:
        """The rows that have a text."""
        values = self.values(field)
        if field == "finished":
            found = [i for i, value in enumerate(values) if value is False] if False in values else []
        elif field == "collective":
            found = (
                [i for i, value in enumerate(values) if value is not None] if values.count(None) < len(values) else []
            )
        else:
            found = [i for i, value in enumerate(values) if value] if any(values) else []
        return np.array(found, np.intp)

    def shapes(self, known: dict[bytes, int]) -> NDArray[np.int32]:
        """What is known of the raw texts of shapes."""
        return np.fromiter(map(known.__getitem__, self.shape_keys()), np.int32, len(self.records))

    def shape_keys(self) -> list[bytes]:
        """The raw texts of shapes, joined."""
        return [
            SEPARATOR.join((a.input_dims or a.input_dims_lower, a.input_type, a.input_strides, a.concrete_inputs))
            for a in self.records
        ]


def places(values: list[str]) -> dict[str, Index]:
    """Where each value stands."""
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    array = np.fromiter(map(numbers.__getitem__, values), np.int64, len(values))
    return {value: np.flatnonzero(array == number) for value, number in numbers.items()}


def _signed(number: Any) -> Any:
    """Integers beyond the signed range wrap to negative numbers."""
    return number - (1 << 64) if isinstance(number, int) and number >= 1 << 63 else number
