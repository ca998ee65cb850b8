"""Rows made by the compiled scanner; the few events that it found odd are decoded one by one, like all without it."""

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any

import msgspec
import numpy as np
from numpy.typing import DTypeLike, NDArray

from traceanalyzer.schema.sink import Texts
from traceanalyzer.sources.torch_trace import scan_layout as at
from traceanalyzer.sources.torch_trace.columns import OWN_NUMBERS, Identities
from traceanalyzer.sources.torch_trace.records import ABSENT, Event, arguments_of, decode_event
from traceanalyzer.sources.torch_trace.rows import (
    SEPARATOR,
    Arguments,
    Identity,
    Index,
    Integers,
    MaskedIntegers,
    Record,
    RecordArguments,
    Rows,
)
from traceanalyzer.sources.torch_trace.times import nanoseconds

Matrix = NDArray[np.int64]
_FLAGS = {
    "collective": at.IS_COLLECTIVE,
    "kernel_file": at.IS_GENERATED,
    "call_stack": at.HAS_STACK,
    "finished": at.IS_UNFINISHED,
}
_TRIPLES = {"grid": at.TRIPLES, "block": at.TRIPLES + 3}
_OTHER_PHASES = 128


class ScannedBlock:
    """What the scanner took out of a block: columns of events, rows of arguments, distinct strings, distinct shapes.

    Raises `ValueError` where an odd event cannot be decoded.
    """

    def __init__(self, text: bytes, events: Matrix, arguments: Matrix, strings: Matrix, shapes: Matrix) -> None:
        self.text = text
        self.events = events
        self.arguments = arguments
        self.shapes = shapes
        self.codes = np.full(len(strings), -1, np.int32)
        """Codes in the dictionary of the capture of the strings that were asked for."""
        self.phases: list[str] = []
        self.odd: dict[int, Event] = {}
        self._strings = strings
        self._texts: dict[int, str] = {0: ""}
        for row in np.flatnonzero(events[at.FLAGS] & at.IS_ODD).tolist():
            self._decode(row)
        if self.odd:
            self.codes = np.full(len(strings) + 2 * len(self.odd), -1, np.int32)

    def _decode(self, row: int) -> None:
        """Decodes an odd event; only its arguments stay outside of the matrices."""
        values = self.events[:, row]
        event = decode_event(self.text[values[at.BEGIN] : values[at.END]])
        if event is None:
            raise ValueError("no event")
        number = len(self._strings) + 2 * len(self.odd)
        self._texts[number], self._texts[number + 1] = event.name or "", event.cat or ""
        values[at.NAME], values[at.CATEGORY] = number, number + 1
        if len(event.ph) == 1 and ord(event.ph) < _OTHER_PHASES:
            values[at.PHASE] = ord(event.ph)
        else:
            if event.ph not in self.phases:
                self.phases.append(event.ph)
            values[at.PHASE] = _OTHER_PHASES + self.phases.index(event.ph)
        self.odd[row] = event

    def string(self, code: int) -> str:
        """A distinct string."""
        text = self._texts.get(code)
        if text is None:
            raw = self.raw(code)
            text = msgspec.json.decode(b'"%b"' % raw, type=str) if b"\\" in raw else raw.decode()
            self._texts[code] = text
        return text

    def raw(self, code: int) -> bytes:
        """A distinct string as it stands in the file; empty for a negative code."""
        return self.text[self._strings[code, 0] : self._strings[code, 1]] if code >= 0 else b""

    def rows(self, flows: int) -> "ScannedRows":
        """All events; `flows` more were counted."""
        out = ScannedRows(self, None)
        out.flows = flows
        return out


class ScannedRows(Rows):
    """Some rows of a block."""

    def __init__(self, block: ScannedBlock, index: Index | None) -> None:
        self._block = block
        self._index = index  # None: all rows

    def __len__(self) -> int:
        return self._block.events.shape[1] if self._index is None else len(self._index)

    def column(self, number: int) -> Integers:
        """A column of the events, to be changed at will."""
        out: Integers = self._block.events[number]
        return out.copy() if self._index is None else out.take(self._index)

    @cached_property
    def odd(self) -> list[tuple[int, Event]]:
        """Places of odd events among these rows, and the events."""
        known = self._block.odd
        if not known:
            return []
        found = np.flatnonzero(self.column(at.FLAGS) & at.IS_ODD).tolist()
        rows = found if self._index is None else self._index[found].tolist()
        return [(place, known[row]) for place, row in zip(found, rows, strict=True)]

    def take(self, index: Index) -> "ScannedRows":
        """These rows only."""
        return ScannedRows(self._block, index if self._index is None else self._index[index])

    def by_phase(self) -> dict[str, Index]:
        """The rows of every phase that occurs."""
        phases = self.column(at.PHASE)
        out = {}
        for code in np.flatnonzero(np.bincount(phases)).tolist():
            text = chr(code) if code < _OTHER_PHASES else self._block.phases[code - _OTHER_PHASES]
            out[text] = np.flatnonzero(phases == code)
        return out

    def starts(self) -> tuple[Integers, NDArray[np.bool_]]:
        """When they start."""
        return self._times(at.START, lambda event: event.ts)

    def lengths(self) -> tuple[Integers, NDArray[np.bool_]]:
        """How long they take."""
        return self._times(at.LENGTH, lambda event: event.dur or b"0")

    def _times(self, number: int, token: Callable[[Event], Any]) -> tuple[Integers, NDArray[np.bool_]]:
        values, valid = self.column(number), np.ones(len(self), np.bool_)
        if self.odd:
            where = [place for place, _event in self.odd]
            values[where], valid[where] = nanoseconds([token(event) for _place, event in self.odd])
        return values, valid

    def names(self, texts: Texts) -> NDArray[np.int32]:
        """Codes of the names."""
        return self._codes(at.NAME, texts)

    def categories(self, texts: Texts) -> NDArray[np.int32]:
        """Codes of the categories."""
        return self._codes(at.CATEGORY, texts)

    def _codes(self, number: int, texts: Texts) -> NDArray[np.int32]:
        own, known = self.column(number), self._block.codes
        out = known[own]
        missing = np.flatnonzero(out < 0)
        if len(missing):
            for code in in_order(own[missing]):
                known[code] = texts[self._block.string(code)]
            out = known[own]
        return out

    def name_texts(self) -> list[str]:
        """The names."""
        return list(map(self._block.string, self.column(at.NAME).tolist()))

    def category_texts(self) -> list[str]:
        """The categories."""
        return list(map(self._block.string, self.column(at.CATEGORY).tolist()))

    def of_categories(self, function: Callable[[str], int], dtype: DTypeLike) -> NDArray[Any]:
        """What a function says of each category."""
        own = self.column(at.CATEGORY)
        counts = np.bincount(own)
        values = np.zeros(len(counts), dtype)
        for code in np.flatnonzero(counts).tolist():
            values[code] = function(self._block.string(code))
        return values[own]

    def process_ids(self) -> list[Identity]:
        """Ids of processes."""
        return self._ids(at.PROCESS, lambda event: event.pid)

    def thread_ids(self) -> list[Identity]:
        """Ids of threads."""
        return self._ids(at.THREAD, lambda event: event.tid)

    def _ids(self, number: int, identity: Callable[[Event], Identity]) -> list[Identity]:
        out: list[Identity] = [None if value == ABSENT else value for value in self.column(number).tolist()]
        for place, event in self.odd:
            out[place] = identity(event)
        return out

    def processes(self, identities: Identities) -> Integers:
        """Numbers of processes."""
        return self._numbers(at.PROCESS, identities, self.process_ids)

    def threads(self, identities: Identities) -> Integers:
        """Numbers of threads."""
        return self._numbers(at.THREAD, identities, self.thread_ids)

    def _numbers(self, number: int, identities: Identities, ids: Callable[[], list[Identity]]) -> Integers:
        values = self.column(number)
        if self.odd or not len(values) or values.min() <= OWN_NUMBERS:
            return identities.numbers(ids())
        return values

    def arguments(self, kind: type[msgspec.Struct]) -> "ScannedArguments":
        """The arguments that a kind of record has."""
        return ScannedArguments(self._block, self, kind)

    def records(self, kind: type[Record]) -> list[Record]:
        """The arguments as records of one kind."""
        text, odd = self._block.text, dict(self.odd)
        spans = zip(self.column(at.ARGS_BEGIN).tolist(), self.column(at.ARGS_END).tolist(), strict=True)
        texts = [odd[i].args if i in odd else text[begin:end] for i, (begin, end) in enumerate(spans)]
        return arguments_of(texts, kind)


class ScannedArguments(Arguments):
    """The arguments of rows of a block."""

    def __init__(self, block: ScannedBlock, rows: ScannedRows, kind: type[msgspec.Struct]) -> None:
        self._block = block
        self._rows = rows
        self._columns = _columns_of(kind)
        self._places = rows.column(at.ARGS_ROW)
        self._odd_places = np.array([place for place, _event in rows.odd], np.intp)
        self._odd = RecordArguments(arguments_of([event.args for _place, event in rows.odd], kind) if rows.odd else [])

    def _column(self, number: int) -> Integers:
        out: Integers = self._block.arguments[:, number][self._places]
        return out

    def integers(self, field: str, absent: int = ABSENT, wrap: bool = False) -> MaskedIntegers:
        """Integers of a field."""
        values = self._column(self._columns[field])
        mask = values == ABSENT
        if absent != ABSENT:
            mask |= values == absent
        if len(self._odd_places):
            odd = self._odd.integers(field, absent, wrap)
            values[self._odd_places], mask[self._odd_places] = odd.data, np.ma.getmaskarray(odd)
        return np.ma.MaskedArray(values, mask)

    def values(self, field: str) -> list[Any]:
        """Values of a field."""
        out: list[Any] = self._column(self._columns[field]).tolist()
        for place, value in zip(self._odd_places.tolist(), self._odd.values(field), strict=True):
            out[place] = value
        return out

    def numbers(self, field: str) -> NDArray[np.float64]:
        """Numbers of a field."""
        values = self._column(self._columns[field])
        out = np.where(values == ABSENT, 0, values).astype(np.float64)
        if len(self._odd_places):
            out[self._odd_places] = self._odd.numbers(field)
        return out

    def triples(self, field: str) -> tuple[Integers, NDArray[np.bool_]]:
        """Lists of three integers of a field."""
        first = _TRIPLES[field]
        values = self._block.arguments[:, first : first + 3][self._places]
        missing = values[:, 0] == ABSENT
        values[missing] = 0
        if len(self._odd_places):
            values[self._odd_places], missing[self._odd_places] = self._odd.triples(field)
        return values, missing

    def having(self, field: str) -> Index:
        """The rows that have a text."""
        found = np.flatnonzero(self._rows.column(at.FLAGS) & (at.IS_ODD | _FLAGS[field]) == _FLAGS[field])
        if len(self._odd_places):
            found = np.sort(np.concatenate((found, self._odd_places[self._odd.having(field)])))
        return found

    def shapes(self, known: dict[bytes, int]) -> NDArray[np.int32]:
        """What is known of the raw texts of shapes."""
        own = self._rows.column(at.SHAPE)
        keys = {code: self._key(code) for code in in_order(own)}
        if not len(self._odd_places):
            values = np.zeros(max(keys, default=0) + 1, np.int32)
            for code, key in keys.items():
                values[code] = known[key]
            return values[own]
        every = [keys[code] for code in own.tolist()]
        for place, key in zip(self._odd_places.tolist(), self._odd.shape_keys(), strict=True):
            every[place] = key
        return np.fromiter(map(known.__getitem__, every), np.int32, len(every))

    def _key(self, code: int) -> bytes:
        return SEPARATOR.join(map(self._block.raw, self._block.shapes[code].tolist()))


def in_order(codes: NDArray[Any]) -> list[int]:
    """Distinct codes in the order of their first sight."""
    if not len(codes):
        return []
    first = np.full(int(codes.max()) + 1, -1)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    found = np.flatnonzero(first >= 0)
    out: list[int] = found[np.argsort(first[found])].tolist()
    return out


@lru_cache
def _columns_of(kind: type[msgspec.Struct]) -> dict[str, int]:
    """Columns of the fields of a kind of record."""
    numbers = {name: number for number, name in enumerate(at.INTEGER_KEYS)}
    fields = msgspec.structs.fields(kind)
    return {field.name: numbers[field.encode_name] for field in fields if field.encode_name in numbers}
