"""Cuts the byte stream of a trace into blocks of whole events, and reads the metadata before and after them.

A block ends at the last probable boundary, a `}` and `{` with a comma between. The cut is proven when `[` + block + `]`
is one whole JSON list: inside a string or a nested list it could not be. A block that is not is joined with the next,
so by induction every cut is true. Where even that fails the text is damaged, and the slow path takes over.
"""

import re
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import msgspec

from traceanalyzer.errors import SourceError, UnknownFormatError
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.torch_trace.records import Event, decode_block, first_value
from traceanalyzer.sources.torch_trace.repair import Salvage, salvage
from traceanalyzer.sources.torch_trace.rows import EventRows, Rows
from traceanalyzer.sources.torch_trace.scanner import Scanned, Scanner, ScanPool

BLOCK_BYTES = 8 << 20
_MOST_METADATA = 32 << 20
_MOST_JOINS = 3
_MOST_UNPROVEN = 3
_SPACE = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"
_BOUNDARY = re.compile(rb"\}\s*,\s*(?=\{)")
_KEY = re.compile(r"\s*,?\s*\"((?:[^\"\\]|\\.)*)\"\s*:\s*", re.DOTALL)
_EVENTS_KEY = re.compile(rb"\"traceEvents\"\s*:\s*\[")
_PLACE = re.compile(r"\(byte (\d+)\)")
_CLOSED = re.compile(r"\s*,?\s*\}\s*$")
_NO_TRACE = "not a torch.profiler trace: JSON without a list of trace events"


@dataclass(slots=True)
class _Block:
    """What became of a block: proven to be whole events or not, and if not, whether the text is surely damaged."""

    events: list[Event] = field(default_factory=list)
    proven: bool = False
    broken: bool = False
    array_end: int | None = None
    """Bytes of the block up to the end of the array, where that lies inside."""


@dataclass(slots=True)
class _Ahead:
    """A block that was cut at its probable boundary and is being scanned."""

    text: bytes
    """The block, and the beginning of the next event."""
    following: int
    """Where the next event begins."""
    lengths: list[int]
    """Lengths of the pieces that were read to make the block."""
    at_end: bool
    """The file was read to its end when the block was cut."""
    is_last: bool
    """The file ends with the block, or it has no boundary: then it is not scanned."""
    scanned: Future[Scanned | None] | None


class TraceText:
    """The content of one trace. Iterating gives rows of events in the order of the file; afterwards the attributes
    tell what was around them and what was lost.

    With a scanner, threads read ahead: call `close`, come what may. Rows are good until the next ones are asked for.
    Raises `UnknownFormatError` where the JSON is no trace and `SourceError` where it ends before its first event.
    """

    def __init__(self, file: TraceFile, block_bytes: int = BLOCK_BYTES, scanner: Scanner | None = None) -> None:
        self.metadata: dict[str, Any] = {}
        self.is_object = True
        self.whole = True
        self.repaired = self.lost = self.not_events = self.lost_bytes = 0
        self.metadata_damaged = False
        self._path = file.path
        read = file.blocks_ahead if scanner and file.compressed else file.blocks
        self._reading = read(min(block_bytes, 1 << 20))
        self._source: Iterator[bytes] = self._reading
        self._block_bytes = block_bytes
        self._buffer = b""
        self._at_end = False
        self._pool = ScanPool(scanner) if scanner else None
        self._lengths: list[int] = []
        self.scanned_blocks = 0
        self._unproven = 0
        self._scanning = scanner is not None

    def __iter__(self) -> Iterator[Rows]:
        self._open()
        ended = False
        while not ended:
            if self._pool and self._scanning:
                ended = yield from self._scanned(self._pool)
            if not ended:
                events, ended = self._next_block()
                yield EventRows(events)
        if self.whole:
            self._close()

    def close(self) -> None:
        """Ends all threads and closes the file."""
        if self._pool:
            self._pool.close()
        self._reading.close()

    def _fill(self, size: int) -> None:
        """Reads until the buffer holds `size` bytes or the file ends."""
        have, parts = len(self._buffer), [self._buffer]
        while have < size and not self._at_end:
            block = next(self._source, None)
            if block is None:
                self._at_end = True
            else:
                parts.append(block)
                self._lengths.append(len(block))
                have += len(block)
        if len(parts) > 1:
            self._buffer = b"".join(parts)

    def _open(self) -> None:
        """Reads up to the first event."""
        self._fill(max(self._block_bytes, 16))
        self._buffer = self._buffer.removeprefix(_BOM).lstrip(_SPACE)
        while not self._buffer and not self._at_end:
            self._fill(self._block_bytes)
            self._buffer = self._buffer.lstrip(_SPACE)
        if not self._buffer:
            raise SourceError(self._path, "an empty file")
        self.is_object = self._buffer[:1] == b"{"
        if self.is_object:
            self._metadata_before()
        elif self._buffer[:1] == b"[":
            self._buffer = self._buffer[1:]
        else:
            raise UnknownFormatError(self._path, "not a torch.profiler trace: no JSON")

    def _metadata_before(self) -> None:
        position, size = 1, self._block_bytes
        text = self._buffer.decode("utf-8", "surrogateescape")
        while True:
            position, found = self._pairs(text, position)
            if found:
                break
            if self._at_end or len(self._buffer) >= _MOST_METADATA:
                self._search_events(text, position)
                return
            size = max(2 * size, len(self._buffer) + 1)
            self._fill(size)
            text = self._buffer.decode("utf-8", "surrogateescape")
        self._buffer = text[position:].encode("utf-8", "surrogateescape")

    def _pairs(self, text: str, position: int) -> tuple[int, bool]:
        """Reads pairs of key and value into the metadata from a position on.

        Gives the position after the last whole pair, or after the `[` of the events and True.
        """
        while key := _KEY.match(text, position):
            if key.group(1) == "traceEvents":
                if text[key.end() : key.end() + 1] == "[":
                    return key.end() + 1, True
                if key.end() < len(text):
                    raise UnknownFormatError(self._path, _NO_TRACE)
                return position, False
            try:
                value, after = first_value(text, key.end())
            except ValueError:
                return position, False
            if after >= len(text) and not self._at_end:
                return position, False  # a number may go on in the next block
            self.metadata[key.group(1)] = value
            position = after
        return position, False

    def _search_events(self, text: str, position: int) -> None:
        """The metadata cannot be read on: no trace, a trace cut before its events, or damaged metadata."""
        if found := _EVENTS_KEY.search(self._buffer):
            self.metadata_damaged = True
            self._buffer = self._buffer[found.end() :]
            return
        likely = self.metadata.keys() & {"schemaVersion", "deviceProperties", "distributedInfo", "displayTimeUnit"}
        if likely and not _CLOSED.match(text, position):
            raise SourceError(self._path, "the file ends before its first event")
        raise UnknownFormatError(self._path, _NO_TRACE)

    def _scanned(self, pool: ScanPool) -> Generator[Rows, None, bool]:
        """Rows of blocks that threads scan ahead, up to one that is not plain: then all is as if that was the next.

        Returns whether the list of events ended.
        """
        ahead: deque[_Ahead] = deque()
        while True:
            self._scan_ahead(pool, ahead)
            block = ahead.popleft()
            found = block.scanned.result() if block.scanned else None
            if found is None or (block.is_last and found.array_end is None):
                self._go_back(block, ahead)
                self._unproven += 1
                self._scanning = self._unproven <= _MOST_UNPROVEN + self.scanned_blocks // 8
                return False
            self.scanned_blocks += 1
            if found.array_end is not None:
                self._go_back(block, ahead)
                self._buffer = self._buffer[found.array_end :]
                yield found.rows
                return True
            self._scan_ahead(pool, ahead)
            yield found.rows
            pool.give_back(found)

    def _scan_ahead(self, pool: ScanPool, ahead: deque["_Ahead"]) -> None:
        """Cuts blocks at their probable boundaries and lets threads scan them: one more than there are threads."""
        while len(ahead) <= pool.workers and not (ahead and ahead[-1].is_last):
            self._lengths = []
            self._fill(self._block_bytes)
            buffer = self._buffer
            cut = None if self._at_end else _last_boundary(buffer)
            end, following = cut or (len(buffer), len(buffer))
            scanned = pool.submit(buffer, end) if cut or self._at_end else None
            ahead.append(_Ahead(buffer, following, self._lengths, self._at_end, cut is None, scanned))
            self._buffer = buffer[following:]

    def _go_back(self, block: "_Ahead", ahead: deque["_Ahead"]) -> None:
        """Makes everything as it was when a block was cut."""
        pieces = []
        self._buffer, self._at_end = block.text, block.at_end
        while ahead:
            at, block = len(block.text) - block.following, ahead.popleft()
            for length in block.lengths:
                pieces.append(block.text[at : at + length])
                at += length
            if block.scanned:
                block.scanned.cancel()
        self._source = chain(pieces, self._source)

    def _next_block(self) -> tuple[list[Event], bool]:
        """The events of the next block, and whether the list of events ended."""
        size, joins = self._block_bytes, 0
        while True:
            self._fill(size)
            self._buffer = self._buffer.lstrip(_SPACE)
            if self._at_end:
                return self._last_block(), True
            cut = _last_boundary(self._buffer)
            end, following = cut or (len(self._buffer), len(self._buffer))
            block = self._decode(self._buffer[:end], b"]" if cut else b"")
            if block.array_end is not None:
                self._buffer = self._buffer[block.array_end :]
                return block.events, True
            if block.proven and cut:
                self._buffer = self._buffer[following:]
                return block.events, False
            if joins < _MOST_JOINS and not block.broken:
                joins += 1
                size = 2 * len(self._buffer) + self._block_bytes
            else:
                found = self._salvage(self._buffer[:end], final=False)
                skipped = found.consumed or self._skip()
                self._buffer = self._buffer[skipped:]
                if not found.ended:
                    self._buffer = self._buffer.lstrip(_SPACE + b",")
                if skipped or found.ended:
                    return found.events, found.ended
                size, joins = 2 * len(self._buffer) + self._block_bytes, 0

    def _decode(self, text: bytes, close: bytes) -> _Block:
        """Decodes events with a bracket around them."""
        data = b"".join((b"[", text, close))
        try:
            events, others = decode_block(data)
        except msgspec.DecodeError as error:
            message = str(error)
            place = _PLACE.search(message)
            if place and message.startswith("JSON is malformed: trailing characters"):
                length = int(place.group(1)) - 1
                try:
                    events, others = decode_block(data[:length])
                except ValueError:  # a number of thousands of digits
                    return _Block(broken=True)
                self.not_events += others
                return _Block(events, proven=True, array_end=length - 1)
            # An error at the very end is that of a wrong cut, any other one is damage.
            return _Block(broken="UTF-8" in message or (place is not None and int(place.group(1)) < len(data) - 2))
        except ValueError:
            return _Block(broken=True)
        self.not_events += others
        return _Block(events, proven=True)

    def _skip(self) -> int:
        """Gives up on text that is far too long for one event and yet none: bytes to leave out."""
        if len(self._buffer) < max(8 * self._block_bytes, _MOST_METADATA):
            return 0
        self.lost += 1
        following = _BOUNDARY.search(self._buffer, 1)
        return following.end() if following else len(self._buffer)

    def _salvage(self, text: bytes, final: bool) -> Salvage:
        found = salvage(text, final)
        self.repaired += found.repaired
        self.lost += found.lost
        return found

    def _last_block(self) -> list[Event]:
        block = self._decode(self._buffer, b"")
        if block.proven:
            self._buffer = self._buffer[len(self._buffer) if block.array_end is None else block.array_end :]
            return block.events
        found = self._salvage(self._buffer, final=True)
        if found.ended:
            self._buffer = self._buffer[found.consumed :]
        else:
            self.whole = False
            self.lost_bytes = found.tail_bytes
        return found.events

    def _close(self) -> None:
        """Reads what stands after the events."""
        self._fill(_MOST_METADATA)
        rest = self._buffer.decode("utf-8", "surrogateescape")
        if not self.is_object:
            self.metadata_damaged = bool(rest.strip())
            return
        position, again = self._pairs(rest, 0)
        if not again and not _CLOSED.match(rest, position):
            self.whole = False
        if again:
            self.metadata_damaged = True


def _last_boundary(text: bytes) -> tuple[int, int] | None:
    """Where the last probable event but one ends, and where the last one begins."""
    window = 1 << 14
    while True:
        start = max(0, len(text) - window)
        found = list(_BOUNDARY.finditer(text, start))
        if found:
            return found[-1].start() + 1, found[-1].end()
        if start == 0:
            return None
        window *= 8
