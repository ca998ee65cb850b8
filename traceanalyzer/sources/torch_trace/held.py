"""Batches that are held back until the whole file is known, on disk where they grow large."""

import pickle
import tempfile
from collections.abc import Iterator
from typing import IO

from traceanalyzer.errors import SourceError
from traceanalyzer.schema.sink import Values

_MOST_BYTES = 48 << 20


class HeldBatches:
    """A queue of batches in the order of their coming; beyond some 50 MB it goes on in an unnamed temporary file."""

    def __init__(self, path: object, most_bytes: int = _MOST_BYTES) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._bytes = 0
        self._batches: list[dict[str, Values]] = []
        self._file: IO[bytes] | None = None
        self._on_disk = 0
        self.rows = 0

    def add(self, batch: dict[str, Values]) -> None:
        """Appends a batch; its columns have equal length. Raises `SourceError` where the temporary folder is full."""
        self.rows += len(next(iter(batch.values())))
        self._batches.append(batch)
        self._bytes += sum(values.nbytes for values in batch.values())
        if self._bytes > self._most_bytes:
            self._spill()

    def _spill(self) -> None:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="traceanalyzer-")  # noqa: SIM115 (closed after reading)
            for batch in self._batches:
                pickle.dump(batch, self._file, protocol=5)
            self._file.flush()
        except OSError as error:
            raise SourceError(
                self._path, f"cannot be unpacked to {tempfile.gettempdir()} ({error.strerror or error})", "set TMPDIR"
            ) from error
        self._on_disk += len(self._batches)
        self._batches, self._bytes = [], 0

    def take(self) -> Iterator[dict[str, Values]]:
        """Gives all batches once and forgets them."""
        if self._file is not None:
            with self._file as file:
                file.seek(0)
                for _ in range(self._on_disk):
                    yield pickle.load(file)  # written by ourselves, in a file without a name
            self._file, self._on_disk = None, 0
        batches, self._batches = self._batches, []
        yield from batches
