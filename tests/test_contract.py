"""Every pass on an empty store and on a store of each single source; every table has its declared columns."""

import subprocess
import sys
from pathlib import Path

import pytest

import traceanalyzer
from traceanalyzer.cli.main import run
from traceanalyzer.ingestion import ingest
from traceanalyzer.passes.registry import PASSES
from traceanalyzer.sources import SOURCES
from traceanalyzer.store.database import open_to_write

SAMPLES = Path(__file__).parents[1] / "sample_traces"
FORMS = ("table", "json", "csv", "markdown")


def sample_of(source):
    """The smallest bundled capture of a source."""
    from traceanalyzer.ingestion import find_files

    files = [f.file for f in find_files([SAMPLES]) if f.source.name == source and f.file.name != "truth.json"]
    return min(files, key=lambda f: f.stat().st_size)


@pytest.fixture(scope="module", params=["empty", *(s.name for s in SOURCES)])
def store(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("contract") / f"{request.param}.duckdb"
    if request.param == "empty":
        open_to_write(path).close()
    else:
        ingest([sample_of(request.param)], path)
    return path


@pytest.mark.parametrize("name", sorted(PASSES))
def test_every_pass_answers(store, name):
    with traceanalyzer.open(store) as traces:
        answer = traces.ask(name)
    assert answer.command == name
    assert tuple(frame.spec for frame in answer.tables.values()) == PASSES[name].tables
    for table, frame in answer.tables.items():
        assert frame.spec.name == table
        assert frame.spec.meaning.endswith(".")
        arrow, polars = frame.to_arrow(), frame.to_polars()
        assert arrow.column_names == polars.columns == [c.name for c in frame.spec.columns]
        assert arrow.num_rows == len(polars) == len(frame)
        for column in frame.spec.columns:
            assert arrow.schema.field(column.name).metadata[b"meaning"].decode() == column.meaning


def words_of(command, store, form):
    question = ["SELECT count(*) AS n FROM gpu_ops"] if command == "sql" else []
    return [command, *question, "--db", str(store), "--format", form]


@pytest.mark.parametrize("command", [*sorted(PASSES), "checkup", "sql"])
def test_every_command_answers(store, command, capfdbinary):
    for form in FORMS:
        code = run(words_of(command, store, form))
        out, err = capfdbinary.readouterr()
        assert code == 0, err
        assert b"Traceback" not in err
        assert out.strip()


@pytest.mark.parametrize(("command", "form"), [("gaps", "table"), ("sql", "json")])
def test_a_process_prints_the_same(tmp_path, capfdbinary, monkeypatch, command, form):
    monkeypatch.setenv("COLUMNS", "100")
    ingest([sample_of(SOURCES[0].name)], tmp_path / "s.duckdb")
    words = words_of(command, tmp_path / "s.duckdb", form)
    assert run(words) == 0
    out, err = capfdbinary.readouterr()
    done = subprocess.run([sys.executable, "-m", "traceanalyzer", *words], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, out, err)


@pytest.mark.parametrize("source", [s.name for s in SOURCES])
def test_raw_files_answer_like_a_store(tmp_path, monkeypatch, source):
    monkeypatch.setenv("TRACEANALYZER_CACHE", str(tmp_path / "cache"))
    file = sample_of(source)
    ingest([file], tmp_path / "s.duckdb")
    with traceanalyzer.open(tmp_path / "s.duckdb") as stored, traceanalyzer.TraceSet.of_files([file]) as raw:
        for name in sorted(PASSES):
            one, two = stored.ask(name), raw.ask(name)
            for table in one.tables:
                assert list(one.tables[table].rows()) == list(two.tables[table].rows())
    assert len(list((tmp_path / "cache").iterdir())) == 1
