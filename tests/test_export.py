"""Files for other programs: what they hold, and that they are whole."""

import json

import duckdb
import pyarrow.ipc
import pytest

import traceanalyzer
from tests.support.store_builder import Capture, store_of
from traceanalyzer.errors import ExportError, TraceAnalyzerError, UsageError
from traceanalyzer.export import formats
from traceanalyzer.passes.answer import library
from traceanalyzer.passes.results import RESULTS
from traceanalyzer.schema.tables import TABLES


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "s.duckdb"
    store_of(path, Capture().kernel(0, 1), run="older")
    return store_of(
        path, Capture().kernel(0, 10, name="it's").kernel(30, 40, device=1), Capture().kernel(0, 5).kernel(9, 12)
    )


def read(file):
    return duckdb.sql(f"SELECT * FROM read_parquet('{file}')").fetchall()


def test_a_folder_gets_every_public_table_of_the_newest_run(store, tmp_path):
    with traceanalyzer.open(store) as traces:
        files = traces.export(tmp_path / "out").files
    assert [f.name for f in sorted((tmp_path / "out").iterdir())] == sorted(f"{t.name}.parquet" for t in TABLES)
    rows = {r["table"]: r["rows"] for r in files.rows()}
    assert (rows["runs"], rows["captures"], rows["gpu_ops"], rows["cpu_events"]) == (1, 2, 4, 0)
    names = duckdb.sql(f"SELECT capture, name, kind, lane FROM '{tmp_path}/out/gpu_ops.parquet'").fetchall()
    assert names[0] == (1, "it's", "kernel", "compute") and {row[0] for row in names} == {1, 2}


@pytest.mark.parametrize(
    ("selection", "count"), [({"run": "all"}, 5), ({"rank": "1"}, 2), ({"device": 1}, 1), ({"source": "torch"}, 4)]
)
def test_stored_tables_follow_run_rank_source_and_device(store, tmp_path, selection, count):
    with traceanalyzer.open(store) as traces:
        traces.export(tmp_path / "ops.parquet", tables=["gpu_ops"], **selection)
    assert len(read(tmp_path / "ops.parquet")) == count


@pytest.mark.parametrize("name", ["k.csv", "k.JSON", "k.xlsx", "k.feather", "k.csv.gz"])
def test_a_name_of_a_format_that_is_not_written_is_refused(store, tmp_path, name):
    target = tmp_path / name
    with traceanalyzer.open(store) as traces, pytest.raises(UsageError) as caught:
        traces.export(target, tables=["gaps"])
    text = f"{target}: export writes no {target.suffix.lower()} files; give a name that ends in .parquet or .arrow, or"
    assert str(caught.value).startswith(text) and not target.exists()
    printed = target.suffix.lower().removeprefix(".")
    command = f"; for {printed} run: traceanalyzer sql 'SELECT * FROM gaps' --format {printed} --top 0 -o {target}"
    assert (command in str(caught.value)) == (printed in ("csv", "json"))


def test_other_dots_in_names_are_names(store, tmp_path):
    (tmp_path / "old.csv").mkdir()
    with traceanalyzer.open(store) as traces:
        traces.export(tmp_path / "run.v2", tables=["gaps"])
        traces.export(tmp_path / "old.csv", tables=["gaps"])
        traces.export(tmp_path / "K.PARQUET", tables=["gaps"])
    assert [(tmp_path / name).is_file() for name in ("run.v2/gaps.parquet", "old.csv/gaps.parquet", "K.PARQUET")] == [
        True
    ] * 3


def test_a_source_that_is_not_there_is_said(store, tmp_path):
    with traceanalyzer.open(store) as traces, pytest.raises(UsageError, match="no capture by nsys"):
        traces.export(tmp_path / "ops.parquet", tables=["gpu_ops"], source="nsys")
    assert not (tmp_path / "ops.parquet").exists()


def test_results_of_passes_are_exported_too(store, tmp_path):
    with traceanalyzer.open(store) as traces:
        traces.export(tmp_path, tables=["gap_pieces", "stacks", "gaps_devices"], rank="1")
        traces.export(tmp_path / "ops.parquet", tables=["kernels"], window="0:0.000000003")
    assert duckdb.sql(f"SELECT start_ns, end_ns FROM '{tmp_path}/gap_pieces.parquet'").fetchall() == [(5, 9)]
    assert duckdb.sql(f"SELECT stack FROM '{tmp_path}/stacks.parquet'").fetchall() == [([],)]
    assert duckdb.sql(f"SELECT sum(total_ns) FROM '{tmp_path}/ops.parquet'").fetchall() == [(6,)]


def test_parquet_tells_what_its_columns_mean(store, tmp_path):
    with traceanalyzer.open(store) as traces:
        traces.export(tmp_path / "x.parquet", tables=["gpu_ops"])
    about = dict(duckdb.sql(f"SELECT key, value FROM parquet_kv_metadata('{tmp_path}/x.parquet')").fetchall())
    assert about[b"traceanalyzer.table"] == b"gpu_ops"
    assert json.loads(about[b"traceanalyzer.columns"])["start_ns"]["unit"] == "ns"
    codecs = duckdb.sql(f"SELECT DISTINCT compression FROM parquet_metadata('{tmp_path}/x.parquet')").fetchall()
    assert codecs == [("ZSTD",)]


def test_arrow_keeps_the_comments_of_its_fields(store, tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "BATCH_ROWS", 2048)
    with traceanalyzer.open(store) as traces:
        traces.export(tmp_path / "x.arrow", tables=["gpu_ops"])
        traces.export(tmp_path, tables=["stacks"], form="arrow")
    with pyarrow.ipc.open_file(tmp_path / "x.arrow") as reader:
        table = reader.read_all()
    assert table.num_rows == 4 and table.column("name").to_pylist()[0] == "it's"
    assert table.schema.field("start_ns").metadata[b"unit"] == b"ns"
    assert (tmp_path / "stacks.arrow").exists()


def test_arrow_without_pyarrow_is_said(store, tmp_path, monkeypatch):
    def missing(name):
        raise TraceAnalyzerError(f"{name} is not installed; run: pip install 'gpu-traceanalyzer[frames]'")

    monkeypatch.setattr(formats, "library", missing)
    with traceanalyzer.open(store) as traces, pytest.raises(TraceAnalyzerError, match="frames"):
        traces.export(tmp_path / "x.arrow", tables=["gpu_ops"])
    assert library("json") is json


def test_files_are_replaced_only_when_told(store, tmp_path):
    target = tmp_path / "x.parquet"
    target.write_text("mine")
    with traceanalyzer.open(store) as traces:
        with pytest.raises(UsageError, match="--force"):
            traces.export(target, tables=["gpu_ops"])
        assert target.read_text() == "mine"
        traces.export(target, tables=["gpu_ops"], force=True)
    assert len(read(target)) == 4


def test_a_file_is_whole_or_not_there(store, tmp_path, monkeypatch):
    def fails(connection, content, path):
        path.write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(formats.FORMATS, "parquet", formats.Format("parquet", ".parquet", fails))
    with traceanalyzer.open(store) as traces, pytest.raises(ExportError, match="No space left"):
        traces.export(tmp_path / "out" / "..", tables=["gpu_ops"])
    assert not list(tmp_path.glob("*gpu_ops*")) and not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("target", "arguments"),
    [
        ("out", {"tables": ["nothing"]}),
        ("x.parquet", {}),
        ("x.parquet", {"tables": ["gpu_ops", "runs"]}),
        ("x.parquet", {"tables": ["gpu_ops"], "form": "arrow"}),
        ("out", {"form": "excel"}),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_written(store, tmp_path, target, arguments):
    with traceanalyzer.open(store) as traces, pytest.raises(UsageError):
        traces.export(tmp_path / "new" / target, **arguments)
    assert not (tmp_path / "new").exists()


def test_export_works_after_sql(store, tmp_path):
    with traceanalyzer.open(store) as traces:
        assert len(traces.sql("SELECT * FROM causes").rows)
        traces.export(tmp_path / "x.parquet", tables=["causes"])
        with pytest.raises(UsageError):
            traces.sql(f"SELECT * FROM read_parquet('{tmp_path}/x.parquet')")
    assert read(tmp_path / "x.parquet")


def test_names_of_files_may_hold_quotes(store, tmp_path):
    target = tmp_path / "it's; DROP.parquet"
    with traceanalyzer.open(store) as traces:
        traces.export(target, tables=["gpu_ops"])
    assert target.exists() and [p.name for p in tmp_path.glob("*.parquet")] == [target.name]


def test_every_result_can_be_exported(store, tmp_path):
    with traceanalyzer.open(store) as traces:
        files = traces.export(tmp_path / "all", tables=sorted(RESULTS)).files
    assert len(files) == len(RESULTS)
