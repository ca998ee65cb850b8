"""What a file holds, as a number that tells equal contents, and whether it is still the file that it was."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from traceanalyzer.errors import SourceError

_BLOCK = 1 << 20
_LARGE = 8 << 20
"""Below this size a thread is not worth its while."""


@dataclass(frozen=True, slots=True)
class _State:
    """What tells that a file was changed."""

    size: int
    changed_ns: int
    inode: int

    @classmethod
    def of(cls, facts: os.stat_result) -> "_State":
        return cls(facts.st_size, facts.st_mtime_ns, facts.st_ino)


class Content:
    """The content of a file as it was when it was looked at first. Raises `SourceError` where it cannot be read."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._thread: Thread | None = None
        self._digest: str | None = None
        self._error: OSError | None = None
        try:
            with file.open("rb") as stream:
                self._state = _State.of(os.fstat(stream.fileno()))
        except OSError as error:
            raise self._unreadable(error) from error

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._state.size

    def begin(self) -> None:
        """Starts to work out the digest, beside whatever follows, where the file is large."""
        if self._thread is None and self._digest is None and self.size >= _LARGE:
            self._thread = Thread(target=self._read, name="digest", daemon=True)
            self._thread.start()

    @property
    def digest(self) -> str:
        """SHA-1 of the bytes, as 40 hexadecimal digits. Raises `SourceError`."""
        if self._thread is not None:
            self._thread.join()
        elif self._digest is None:
            self._read()
        if self._digest is None:
            error = self._error or OSError("interrupted")
            raise self._unreadable(error) from error
        return self._digest

    def settled_digest(self) -> str:
        """The digest of a file that is still the same. Raises `SourceError`."""
        digest = self.digest
        self.check_still()
        return digest

    def _read(self) -> None:
        digest = hashlib.sha1(usedforsecurity=False)
        buffer = memoryview(bytearray(_BLOCK))
        try:
            with self._file.open("rb", buffering=0) as stream:
                while count := stream.readinto(buffer):
                    digest.update(buffer[:count])
        except OSError as error:
            self._error = error
        else:
            self._digest = digest.hexdigest()

    def _unreadable(self, error: OSError) -> SourceError:
        return SourceError(self._file, f"cannot be read ({error.strerror or error})")

    def check_still(self) -> None:
        """Raises `SourceError` where the file is not what it was: what was read of it may be half of one of two."""
        try:
            now = _State.of(self._file.stat())
        except OSError as error:
            raise SourceError(self._file, "vanished while it was read", "give it again when it is whole") from error
        if now != self._state:
            raise SourceError(self._file, "changed while it was read", "give it again when it is whole")
