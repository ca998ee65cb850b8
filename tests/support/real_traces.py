"""The real traces beside the repository, and what the program says of one of them."""

import json
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


@contextmanager
def opened(path: Path) -> Iterator[TraceSet]:
    """A trace, ingested into a store of its own that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="traceanalyzer-tests-") as folder:
        store = shutil.copy(empty_store(), Path(folder) / "s.duckdb")
        ingest([path], store)
        with traceanalyzer.open(store) as traces:
            yield traces


def rows(answer: Any, table: str, **where: object) -> list[dict[str, Any]]:
    """Rows of a table of an answer in which some columns have some values."""
    return [row for row in getattr(answer, table).rows() if all(row[name] == value for name, value in where.items())]


def title(path: Path) -> str:
    """A short name of a file for the names of tests."""
    return f"{path.parent.name}/{path.name.removesuffix('.gz')}"
