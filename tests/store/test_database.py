"""Opening, versions, locks: what people see when a store is not what it should be."""

import subprocess
import sys

import duckdb
import pytest

import traceanalyzer
from tests.support.store_builder import Capture, store_of
from traceanalyzer.errors import SchemaVersionError, StoreBusyError, StoreError
from traceanalyzer.schema.tables import TABLES
from traceanalyzer.store import database
from traceanalyzer.store.ddl import public_columns

pytestmark = pytest.mark.usefixtures("stores_made_anew")


@pytest.fixture
def store(tmp_path):
    return store_of(tmp_path / "s.duckdb", Capture().kernel(0, 10, 1).launch(0, 5, 1).kernel(20, 30))


def test_every_public_view_has_the_declared_columns_with_comments(store):
    with duckdb.connect(str(store), read_only=True) as connection:
        found = {}
        for table, column, comment in connection.execute(
            "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE schema_name = 'main'"
        ).fetchall():
            found.setdefault(table, {})[column] = comment
    for table in TABLES:
        assert list(found[table.name]) == [c.name for c in public_columns(table)]
        for column in public_columns(table):
            assert found[table.name][column.name].startswith(column.meaning)


@pytest.mark.parametrize(("version", "word"), [(0, "older"), (99, "newer")])
def test_another_schema_version_is_said_in_a_sentence(store, version, word):
    with duckdb.connect(str(store)) as connection:
        connection.execute("UPDATE stored.version SET schema_version = ?", [version])
    with pytest.raises(SchemaVersionError, match=f"schema version {version}.*{word}"):
        traceanalyzer.open(store)


def test_no_store_says_how_to_make_one(tmp_path):
    with pytest.raises(StoreError, match="no such store; make one with: traceanalyzer ingest"):
        traceanalyzer.open(tmp_path / "absent.duckdb")


def test_a_foreign_duckdb_file_is_no_store(tmp_path):
    with duckdb.connect(str(tmp_path / "other.duckdb")) as connection:
        connection.execute("CREATE TABLE t (x INTEGER)")
    with pytest.raises(StoreError, match="not a store of traceanalyzer"):
        traceanalyzer.open(tmp_path / "other.duckdb")


def test_a_text_file_is_no_store(tmp_path):
    (tmp_path / "text.duckdb").write_text("hello" * 1000)
    with pytest.raises(StoreError, match="not a store; a trace is given without --db"):
        traceanalyzer.open(tmp_path / "text.duckdb")


def test_a_second_process_is_told_who_writes(store, monkeypatch):
    monkeypatch.setattr(database, "WAIT_TO_READ_S", 0.1)
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import duckdb; c = duckdb.connect({str(store)!r}); print('ready', flush=True); input()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout.readline().strip() == "ready"
        with pytest.raises(StoreBusyError, match=f"process {holder.pid} has the store open"):
            traceanalyzer.open(store)
    finally:
        holder.communicate("\n")
    traceanalyzer.open(store).close()


def test_many_may_read_at_once(store):
    code = f"import traceanalyzer; print(len(traceanalyzer.open({str(store)!r}).gaps().devices))"
    with traceanalyzer.open(store):
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "1"


def test_making_a_store_leaves_nothing_else(tmp_path):
    database.open_to_write(tmp_path / "s.duckdb").close()
    assert [p.name for p in tmp_path.iterdir()] == ["s.duckdb"]


def test_a_missing_folder_is_said(tmp_path):
    with pytest.raises(StoreError, match="does not exist"):
        database.open_to_write(tmp_path / "none" / "s.duckdb")


class TestSql:
    def test_reads_the_public_views(self, store):
        with traceanalyzer.open(store) as traces:
            rows = list(traces.sql("SELECT op_id, kind, lane, name, rank FROM gpu_ops ORDER BY op_id").rows.rows())
        assert rows == [
            {"op_id": 0, "kind": "kernel", "lane": "compute", "name": "gemm", "rank": 0},
            {"op_id": 1, "kind": "kernel", "lane": "compute", "name": "gemm", "rank": 0},
        ]

    def test_joins_pieces_of_gaps(self, store):
        query = "SELECT cause, sum(end_ns - start_ns) AS ns FROM gap_pieces GROUP BY cause"
        with traceanalyzer.open(store) as traces:
            assert list(traces.sql(query).rows.rows()) == [{"cause": "unattributed", "ns": 10}]

    @pytest.mark.parametrize(
        "query",
        [
            "DROP TABLE stored.gpu_ops",
            "INSERT INTO stored.names VALUES (1, 'x')",
            "COPY gpu_ops TO '/tmp/out.csv'",
            "ATTACH '/tmp/x.duckdb'",
            "SELECT * FROM '/etc/passwd'",
            "SELECT * FROM read_text('/etc/passwd')",
            "SELECT 1; SELECT 2",
            "SET memory_limit = '1GB'",
            "SELECT nonsense FROM nowhere",
            "",
        ],
    )
    def test_refuses_all_that_is_no_question(self, store, query):
        before = store.read_bytes()
        with traceanalyzer.open(store) as traces, pytest.raises(traceanalyzer.UsageError) as error:
            traces.sql(query)
        assert "\n" not in str(error.value)
        assert store.read_bytes() == before

    def test_cuts_rows_and_says_so(self, store):
        with traceanalyzer.open(store) as traces:
            answer = traces.sql("SELECT * FROM range(5)", top=2)
        assert len(answer.rows) == 2
        assert "only the first 2 rows" in answer.warnings[0]
