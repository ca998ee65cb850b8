"""What is written never takes the place of what was read."""

import shutil
from pathlib import Path

import pytest

from traceanalyzer.cli.main import run

SAMPLE = Path(__file__).parents[2] / "sample_traces/kernel_limits/raw.csv.gz"


@pytest.fixture
def trace(tmp_path):
    return Path(shutil.copy(SAMPLE, tmp_path / "raw.csv.gz"))


@pytest.mark.parametrize(
    "words",
    [
        ["report", "-o", "{trace}", "--format", "json", "{trace}"],
        ["report", "-o", "{link}", "--format", "markdown", "{folder}"],
        ["throughput", "--format", "json", "-o", "{trace}", "{folder}"],
        ["export", "--perfetto", "{trace}", "--force", "{trace}"],
    ],
)
def test_a_trace_is_not_written_over(tmp_path, trace, words, capfdbinary):
    link = tmp_path / "link.md"
    link.symlink_to(trace)
    before = trace.read_bytes()
    assert run([word.format(trace=trace, folder=tmp_path, link=link) for word in words]) == 2
    assert b"is a trace that is read" in capfdbinary.readouterr().err
    assert trace.read_bytes() == before


@pytest.mark.parametrize("command", ["report", "throughput"])
def test_the_store_is_not_written_over(tmp_path, trace, command, capfdbinary, monkeypatch):
    store = tmp_path / "s.duckdb"
    assert run(["ingest", "-q", "--db", str(store), str(trace)]) == 0
    before = store.read_bytes()
    assert run([command, "--db", str(store), "--format", "markdown", "-o", str(store)]) == 2
    monkeypatch.setenv("TRACEANALYZER_DB", str(store))
    assert run([command, "--format", "markdown", "-o", str(store)]) == 2
    assert capfdbinary.readouterr().err.count(b"is the store") == 2
    assert store.read_bytes() == before


def test_a_report_beside_its_traces_is_written_again(tmp_path, trace):
    for _ in range(2):
        assert run(["report", "-q", "-o", str(tmp_path / "report.html"), str(tmp_path)]) == 0


def test_a_folder_is_no_file(tmp_path, trace, capfdbinary):
    for words in (["--pseudonyms"], []):
        assert run(["report", *words, "-o", str(tmp_path), str(trace)]) == 2
        assert b"is a folder" in capfdbinary.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["raw.csv.gz"]
