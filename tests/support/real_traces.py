"""The real traces beside the repository, and what the program says of one of them."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import traceanalyzer
from tests.support.store_builder import empty_store
from traceanalyzer.ingestion import ingest
from traceanalyzer.traceset import TraceSet

SHARED = Path(__file__).parents[2].parent / "shared"
TRACES, PUBLIC = SHARED / "traces", SHARED / "public"
MISSING = "the real traces are not beside the repository"
TRUTH: dict[str, Any] = json.loads((TRACES / "truth.json").read_text()) if (TRACES / "truth.json").exists() else {}
"""What was planted in our own captures, and what was measured while they were taken."""


STORES = "TRACEANALYZER_TEST_STORES"
"""Environment variable with the folder in which the processes of a run of the tests share stores."""


@contextmanager
def opened(path: Path) -> Iterator[TraceSet]:
    """A trace in a store of its own, to be read only: that of a real trace serves all tests, others are gone then."""
    if path.is_relative_to(SHARED) and path.is_file() and STORES in os.environ:
        with traceanalyzer.open(_shared_store(path, Path(os.environ[STORES]))) as traces:
            yield traces
        return
    with tempfile.TemporaryDirectory(prefix="traceanalyzer-tests-") as folder:
        store = _ingested(path, Path(folder) / "s.duckdb")
        with traceanalyzer.open(store) as traces:
            yield traces


def _shared_store(path: Path, folder: Path) -> Path:
    """Two processes that make the same one at once both make it; what is in place is always whole."""
    store = folder / f"{hashlib.sha256(os.fsencode(path)).hexdigest()}.duckdb"
    if not store.exists():
        with tempfile.TemporaryDirectory(dir=folder) as own:
            _ingested(path, Path(own) / "s.duckdb").replace(store)
    return store


def _ingested(path: Path, store: Path) -> Path:
    shutil.copy(empty_store(), store)
    ingest([path], store)
    return store


def rows(answer: Any, table: str, **where: object) -> list[dict[str, Any]]:
    """Rows of a table of an answer in which some columns have some values."""
    return [row for row in getattr(answer, table).rows() if all(row[name] == value for name, value in where.items())]


def title(path: Path) -> str:
    """A short name of a file for the names of tests."""
    return f"{path.parent.name}/{path.name.removesuffix('.gz')}"
