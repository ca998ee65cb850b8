"""Files as they lie: plain, gzipped (one or many members) or zipped, with progress by bytes of the file itself."""

import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Semaphore, Thread
from typing import Any, BinaryIO

from traceanalyzer.errors import SourceError

HEAD_BYTES = 1 << 16
_BLOCK = 1 << 20
_BITE = 1 << 14
_MOST_PACKED = 1032  # times; deflate packs nothing tighter, whatever a damaged end says
GZIP_MAGIC = b"\x1f\x8b"
ZIP_MAGIC = b"PK\x03\x04"
_ZIP_HEADER = struct.Struct("<6x2H16x2H")  # flags, method, length of the name, length of the extra field
_ZIP_ENCRYPTED = 1
_LEAST_GZIP = 18

Progress = Callable[[int], None]
"""Told how many more bytes of the file, as it lies on disk, were read."""


def _no_progress(_count: int) -> None:
    return None


class TraceFile:
    """One input file.

    `damage` says after reading whether its compression ended early or broke: what came before is delivered.
    `remark` says what was odd but lost nothing.
    Raises `SourceError` where the file cannot be opened.
    """

    def __init__(self, path: str | Path, progress: Progress = _no_progress) -> None:
        self.path = Path(path)
        self.damage: str | None = None
        self.remark: str | None = None
        self._progress = progress
        try:
            if not self.path.is_file():
                raise SourceError(path, "no such file" if not self.path.exists() else "not a file")
            self.size = self.path.stat().st_size
            with self.path.open("rb") as file:
                self._magic = file.read(4)
        except OSError as error:
            raise SourceError(path, f"cannot be opened ({error.strerror or error})") from error

    @property
    def compressed(self) -> bool:
        """Whether the file is gzipped or zipped."""
        return self._magic[:2] == GZIP_MAGIC or self._magic == ZIP_MAGIC

    @property
    def stem(self) -> str:
        """Name of the file without the suffix of its compression."""
        name = self.path.name
        return name[: -len(self.path.suffix)] if self.compressed and self.path.suffix in (".gz", ".zip") else name

    @cached_property
    def head(self) -> bytes:
        """The first 64 KiB of the content."""
        quiet = TraceFile(self.path)
        out = b""
        for block in quiet.blocks(HEAD_BYTES):
            out += block
            if len(out) >= HEAD_BYTES:
                break
        return out[:HEAD_BYTES]

    @property
    def text_bytes(self) -> int:
        """About how long the content is: of gzipped files what their end says of its size, modulo 4 GiB."""
        if self._magic[:2] != GZIP_MAGIC or self.size < _LEAST_GZIP:
            return self.size
        try:
            with self.path.open("rb") as file:
                file.seek(-4, 2)
                stated = int.from_bytes(file.read(4), "little")
                return max(self.size, min(stated, self.size * _MOST_PACKED))
        except OSError:
            return self.size

    def blocks_ahead(self, size: int = _BLOCK, depth: int = 16) -> Generator[bytes, None, None]:
        """The same as `blocks`, unpacked in a thread of its own up to `depth` blocks ahead.

        `damage` and `remark` are set when the last block was taken; progress is told by the thread that takes them.
        """
        taken = 0

        def count(more: int) -> None:
            nonlocal taken
            taken += more

        other = TraceFile(self.path, count)
        waiting: SimpleQueue[tuple[int, bytes | BaseException | None]] = SimpleQueue()
        room, stopped = Semaphore(depth), Event()

        def unpack() -> None:
            end: BaseException | None = None
            try:
                for block in other._content(size, fast=True):
                    room.acquire()
                    if stopped.is_set():
                        return
                    waiting.put((taken, block))
            except BaseException as error:
                end = error
            waiting.put((taken, end))

        thread = Thread(target=unpack, name="unpack", daemon=True)
        thread.start()
        told = 0
        try:
            while True:
                count_now, block = waiting.get()
                self._progress(count_now - told)
                told = count_now
                if not isinstance(block, bytes):
                    break
                room.release()
                yield block
            self.damage, self.remark = other.damage, other.remark
            if block is not None:
                raise block
        finally:
            stopped.set()
            room.release()
            thread.join()

    def blocks(self, size: int = _BLOCK) -> Generator[bytes, None, None]:
        """The content in blocks of about `size` bytes, unpacked; ends early where the compression is damaged."""
        return self._content(size, fast=False)

    def _content(self, size: int, fast: bool) -> Generator[bytes, None, None]:
        try:
            if self._magic[:2] == GZIP_MAGIC:
                yield from _regular(self._gunzip_fast(size) if fast else self._gunzip(size), size)
            elif self._magic == ZIP_MAGIC:
                yield from self._unzip(size)
            else:
                with self.path.open("rb") as file:
                    while block := file.read(size):
                        self._progress(len(block))
                        yield block
        except OSError as error:
            raise SourceError(self.path, f"cannot be read ({error.strerror or error})") from error

    def _gunzip_fast(self, size: int) -> Iterator[bytes]:
        """The same as `_gunzip` by a faster library, where it is installed; that one has the last word on damage."""
        try:
            from isal import isal_zlib
        except ImportError:
            yield from self._gunzip(size)
            return
        done = 0
        for block in self._members(size, isal_zlib):
            done += len(block)
            yield block
        if self.damage:
            self.damage = self.remark = None
            progress, self._progress = self._progress, _no_progress
            for block in self._gunzip(size):
                if len(block) > done:
                    yield block[done:]
                done = max(0, done - len(block))
            self._progress = progress

    def _gunzip(self, size: int) -> Iterator[bytes]:
        return self._members(size, zlib)

    def _members(self, size: int, library: Any) -> Iterator[bytes]:
        """All members of a gzip file, one after another; trailing bytes that are no member are left out."""
        with self.path.open("rb") as file:
            decoder, fresh = library.decompressobj(31), True
            # Small bites: what precedes a damaged place is delivered but for a bite.
            while raw := file.read(_BITE):
                self._progress(len(raw))
                pending = False  # the decoder has taken all its input but still holds output
                while raw or pending:
                    if fresh and not GZIP_MAGIC.startswith(raw[:2]):
                        if raw.strip(b"\x00"):
                            self.remark = "bytes after the end of the gzip data were left out"
                        return
                    fresh = False
                    try:
                        out = decoder.decompress(raw, size)
                    except library.error as error:
                        self.damage = f"the gzip data is damaged ({error})"
                        return
                    if out:
                        yield out
                    pending = len(out) == size and not decoder.eof
                    raw = decoder.unconsumed_tail
                    if decoder.eof:
                        raw = decoder.unused_data
                        decoder, fresh = library.decompressobj(31), True
            if not fresh:
                self.damage = "the gzip data ends early"

    def _unzip(self, size: int) -> Iterator[bytes]:
        try:
            archive = zipfile.ZipFile(self.path)
        except (zipfile.BadZipFile, NotImplementedError):
            # The list of members stands at the end: the file was cut. The first member can still be read.
            self.damage = "the zip data ends early"
            yield from self._first_zip_member(size)
            return
        try:
            with archive:
                members = [m for m in archive.infolist() if not m.is_dir() and "__MACOSX" not in m.filename]
                if len(members) != 1:
                    raise SourceError(
                        self.path,
                        f"a zip archive of {len(members)} files",
                        "unpack it and give the files or their folder",
                    )
                with archive.open(members[0]) as file:
                    done = 0
                    while block := file.read(size):
                        packed = min(self.size, int(self.size * (done + len(block)) / max(members[0].file_size, 1)))
                        self._progress(packed - min(self.size, int(self.size * done / max(members[0].file_size, 1))))
                        done += len(block)
                        yield block
        except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
            if self.damage is None:
                self.damage = f"the zip data is damaged ({error})"

    def _first_zip_member(self, size: int) -> Iterator[bytes]:
        """The first member of a zip archive without its end, as far as it goes."""
        with self.path.open("rb") as file:
            header = file.read(_ZIP_HEADER.size)
            if len(header) < _ZIP_HEADER.size:
                return
            flags, method, name_length, extra_length = _ZIP_HEADER.unpack(header)
            file.seek(name_length + extra_length, 1)
            if flags & _ZIP_ENCRYPTED or method != zipfile.ZIP_DEFLATED:
                return
            decoder, pending = zlib.decompressobj(-zlib.MAX_WBITS), False
            while raw := file.read(_BITE):
                self._progress(len(raw))
                while (raw or pending) and not decoder.eof:
                    try:
                        out = decoder.decompress(raw, size)
                    except zlib.error:
                        return
                    if out:
                        yield out
                    raw, pending = decoder.unconsumed_tail, len(out) == size

    @contextmanager
    def on_disk(self) -> Iterator[Path]:
        """A path at which the content lies unpacked, for readers that need a file; a temporary copy if compressed."""
        if not self.compressed:
            self._progress(self.size)
            yield self.path
            return
        with tempfile.TemporaryDirectory(prefix="traceanalyzer-") as folder:
            target = Path(folder) / "content"
            with target.open("wb") as file:
                self._copy(file)
            yield target

    def _copy(self, target: BinaryIO) -> None:
        for block in self.blocks():
            try:
                target.write(block)
            except OSError as error:
                raise SourceError(
                    self.path,
                    f"cannot be unpacked to {tempfile.gettempdir()} ({error.strerror or error})",
                    "set TMPDIR",
                ) from error


def _regular(pieces: Iterator[bytes], size: int) -> Iterator[bytes]:
    """The same bytes in blocks of just that size, whichever library made the pieces; the last one may be shorter."""
    waiting: list[bytes] = []
    have = 0
    for piece in pieces:
        waiting.append(piece)
        have += len(piece)
        if have >= size:
            text = b"".join(waiting)
            whole = have - have % size
            for start in range(0, whole, size):
                yield text[start : start + size]
            waiting, have = [text[whole:]], have - whole
    if have:
        yield b"".join(waiting)
