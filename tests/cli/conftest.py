"""A trace set of our own making, so that the command line is tested without readers, store and passes."""

import sys
import types
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.answers import ANSWERS
from traceanalyzer.errors import StoreError


class FakeTraceSet:
    """Answers from `ANSWERS`; `asked` remembers what was asked, and how."""

    asked: list

    def __getattr__(self, question):
        if question not in ANSWERS:
            raise AttributeError(question)

        def answer(*arguments, **selection):
            self.asked.append((question, arguments, selection))
            return ANSWERS[question]()

        return answer

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


@pytest.fixture
def fake(monkeypatch):
    """Replace the API beneath the command line; returns the list of what it was asked."""
    monkeypatch.delenv("COLUMNS", raising=False)  # workers of the tests have it: then sentences wrap
    asked = []
    traces = FakeTraceSet()
    traces.asked = asked

    @contextmanager
    def open_store(path=None):
        asked.append(("open", (path,), {}))
        if path is not None and "absent" in str(path):
            raise StoreError(f"{path}: no such store; make it with: traceanalyzer ingest")
        yield traces

    def of_files(paths, *, progress=None):
        asked.append(("of_files", (tuple(paths),), {}))
        return traces

    def ingest(paths, store, **keywords):
        asked.append(("ingest", (tuple(paths), store), keywords))
        return ANSWERS["ingest"]()

    traceset = types.ModuleType("traceanalyzer.traceset")
    traceset.open = open_store
    traceset.TraceSet = types.SimpleNamespace(of_files=of_files)
    ingesting = types.ModuleType("traceanalyzer.ingestion")
    ingesting.ingest = ingest
    location = types.ModuleType("traceanalyzer.store.location")
    location.default_store = lambda: Path("traceanalyzer.duckdb")
    for module in (traceset, ingesting, location):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return asked


@pytest.fixture
def call(capfdbinary, fake):
    """Run the command line in this process: exit code, stdout and stderr as text."""
    from traceanalyzer.cli.main import run

    def run_it(*arguments):
        code = run([str(a) for a in arguments])
        out, err = capfdbinary.readouterr()
        return types.SimpleNamespace(code=code, out=out.decode(), err=err.decode())

    return run_it
