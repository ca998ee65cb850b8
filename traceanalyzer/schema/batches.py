"""Batches of rows on their way: joined into larger ones, and held back until the whole file is known.

A column of one value only is an array of that value with the stride 0: it takes no room, here and on disk.
"""

import pickle
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import IO

import numpy as np

from traceanalyzer.errors import SourceError
from traceanalyzer.schema.sink import Values

_MOST_BYTES = 8 << 20


class HeldBatches:
    """A queue of batches in the order of their coming; beyond some 8 MB it goes on in an unnamed temporary file.

    `path` is the trace that the rows come from, which an error names.
    """

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
        self._bytes += sum(values.nbytes for values in batch.values() if not is_single(values))
        if self._bytes > self._most_bytes:
            self._spill()

    def _spill(self) -> None:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="traceanalyzer-")  # noqa: SIM115 (closed after reading)
            for batch in self._batches:
                rows = len(next(iter(batch.values())))
                single = {name: values[:1] for name, values in batch.items() if is_single(values)}
                pickle.dump((rows, single, {n: v for n, v in batch.items() if n not in single}), self._file, protocol=5)
            self._file.flush()
        except OSError as error:
            raise SourceError(
                self._path,
                f"its rows find no room in {tempfile.gettempdir()} ({error.strerror or error})",
                "set TMPDIR to a folder with more",
            ) from error
        self._on_disk += len(self._batches)
        self._batches, self._bytes = [], 0

    def take(self) -> Iterator[dict[str, Values]]:
        """Gives all batches once and forgets them."""
        if self._file is not None:
            with self._file as file:
                file.seek(0)
                for _ in range(self._on_disk):
                    rows, single, others = pickle.load(file)  # written by ourselves, in a file without a name
                    yield {name: np.broadcast_to(value, (rows,)) for name, value in single.items()} | others
            self._file, self._on_disk = None, 0
        batches, self._batches = self._batches, []
        yield from batches

    def take_joined(self, rows: int) -> Iterator[dict[str, Values]]:
        """As `take`, in batches of so many rows each but for the last one."""
        waiting: list[dict[str, Values]] = []
        count = 0
        for batch in self.take():
            waiting.append(batch)
            count += len(next(iter(batch.values())))
            while count >= rows:
                whole = joined(waiting)
                yield {name: values[:rows] for name, values in whole.items()}
                count -= rows
                waiting = [{name: values[rows:] for name, values in whole.items()}] if count else []
        if waiting:
            yield joined(waiting)

    def close(self) -> None:
        """Forgets all batches."""
        self._batches = []
        if self._file is not None:
            self._file.close()
            self._file = None


def is_single(values: Values) -> bool:
    """Whether a column is kept as one value."""
    return values.strides == (0,) and not isinstance(values, np.ma.MaskedArray)


def single_if_possible(values: Values) -> Values:
    """The same column, kept as one value where it has only one."""
    if isinstance(values, np.ma.MaskedArray) or len(values) < 2 or values.dtype.kind not in "iub":
        return values
    if values[0] != values[-1] or not (values == values[0]).all():
        return values
    return np.broadcast_to(values[:1].copy(), values.shape)


def joined(batches: Sequence[Mapping[str, Values]]) -> dict[str, Values]:
    """One batch of all rows; a column that a batch does not have is null in its rows."""
    if len(batches) == 1:
        return dict(batches[0])
    names = dict.fromkeys(name for batch in batches for name in batch)
    counts = [len(next(iter(batch.values()))) for batch in batches]
    return {name: _joined([batch.get(name) for batch in batches], counts) for name in names}


def _joined(parts: list[Values | None], counts: list[int]) -> Values:
    first = parts[0]
    if first is not None and all(p is not None and is_single(p) and p[0] == first[0] for p in parts):
        return np.broadcast_to(first[:1], (sum(counts),))
    kind = np.result_type(*(part.dtype for part in parts if part is not None))
    data: Values = np.full(sum(counts), None) if kind.hasobject else np.zeros(sum(counts), kind)
    mask: Values | None = None
    low = 0
    for part, count in zip(parts, counts, strict=True):
        rows = slice(low, low + count)
        if part is not None:
            data[rows] = np.ma.getdata(part)
        if part is None or isinstance(part, np.ma.MaskedArray):
            if mask is None:
                mask = np.zeros(len(data), np.bool_)
            mask[rows] = True if part is None else np.ma.getmaskarray(part)
        low += count
    return data if mask is None else np.ma.masked_array(data, mask)
