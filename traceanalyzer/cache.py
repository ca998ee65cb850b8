"""The cache of raw files: a store for each content, made once, so that a file can be asked again and again."""

import contextlib
import hashlib
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from traceanalyzer.errors import SourceError, StoreError
from traceanalyzer.schema.tables import SCHEMA_VERSION
from traceanalyzer.store.database import duckdb_errors
from traceanalyzer.store.location import cache_folder
from traceanalyzer.version import __version__

if TYPE_CHECKING:
    from traceanalyzer.ingestion import Progress


def cached_store(paths: Sequence[str | Path], progress: "Progress | None", lacking: list[SourceError]) -> Path:
    """The store of raw files: made once for a content, kept in the cache folder.

    `lacking` gets an error for each file of a folder that only a missing package keeps from being read.
    """
    # The readers are imported here: asking a store needs none of them.
    from traceanalyzer.ingestion import find_files, ingest
    from traceanalyzer.sources.content import Content

    digest = hashlib.blake2b(f"{__version__} {SCHEMA_VERSION}".encode(), digest_size=16)
    for found in find_files(paths, lacking):
        digest.update(f"{found.file.resolve()}\0{Content(found.file).digest}\0".encode("utf-8", "surrogateescape"))
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{folder}: the cache cannot be made ({error.strerror}); set TRACEANALYZER_CACHE") from error
    store = folder / f"{digest.hexdigest()}.duckdb"
    if not store.exists():
        _sweep(folder)
        with (
            duckdb_errors(folder, "used as a cache"),
            tempfile.TemporaryDirectory(prefix=_HALF_MADE, dir=folder) as own,
        ):
            fresh = Path(own) / store.name
            ingest(paths, fresh, progress=progress)
            if fresh.with_name(f"{fresh.name}.wal").exists():
                raise StoreError(f"{folder}: the cache cannot be written (is the disk full?); set TRACEANALYZER_CACHE")
            fresh.replace(store)
    return store


_HALF_MADE = ".making-"
_OLD_S = 24 * 3600


def _sweep(folder: Path) -> None:
    """Remove what processes left in the cache that were killed, a day later."""
    for leftover in folder.glob(f"{_HALF_MADE}*"):
        with contextlib.suppress(OSError):
            if time.time() - leftover.stat().st_mtime > _OLD_S:
                shutil.rmtree(leftover)
