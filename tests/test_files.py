"""Targets of files: links are followed, pipes are written through, modes stay; whoever writes."""

import gzip
import json
import os
import threading

import pyarrow.ipc
import pyarrow.parquet
import pytest

import traceanalyzer
from tests.support.store_builder import Capture, store_of
from traceanalyzer.errors import ExportError, UsageError
from traceanalyzer.export.timeline import write
from traceanalyzer.files import write_whole


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return store_of(tmp_path_factory.mktemp("store") / "s.duckdb", Capture().kernel(0, 10).kernel(20, 30))


def _plain(_store, target, _force):
    write_whole(target, b"content")


def _timeline(store, target, force):
    with traceanalyzer.open(store) as traces:
        traces.export_timeline(target, force=force)


def _table(store, target, force):
    with traceanalyzer.open(store) as traces:
        traces.export(target, tables=["gpu_ops"], force=force)


def _kernels(raw):
    return sum(event.get("cat") == "kernel" for event in json.loads(raw)["traceEvents"])


# Of each: the name of the target, who writes it, and whether what was read is all of it.
WRITERS = [
    pytest.param("t.txt", _plain, lambda raw: raw == b"content", id="text"),
    pytest.param("t.json", _timeline, lambda raw: _kernels(raw) == 2, id="timeline"),
    pytest.param("t.json.gz", _timeline, lambda raw: _kernels(gzip.decompress(raw)) == 2, id="timeline, gzipped"),
    pytest.param(
        "t.parquet",
        _table,
        lambda raw: pyarrow.parquet.read_table(pyarrow.BufferReader(raw)).num_rows == 2,
        id="parquet",
    ),
    pytest.param("t.arrow", _table, lambda raw: pyarrow.ipc.open_file(raw).read_all().num_rows == 2, id="arrow"),
]
every_writer = pytest.mark.parametrize(("name", "writes", "is_whole"), WRITERS)


@every_writer
def test_a_pipe_gets_all_of_it_and_stays_a_pipe(store, tmp_path, name, writes, is_whole):
    pipe = tmp_path / name
    os.mkfifo(pipe)
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()), daemon=True)
    reader.start()
    writes(store, pipe, False)  # it is not replaced, so that nothing has to be allowed
    reader.join(10)
    assert got and is_whole(got[0])
    assert pipe.is_fifo() and list(tmp_path.iterdir()) == [pipe]


@every_writer
def test_a_link_stays_and_its_file_is_written_with_its_mode(store, tmp_path, name, writes, is_whole):
    real, link = tmp_path / "real", tmp_path / name
    real.write_bytes(b"before")
    real.chmod(0o600)
    link.symlink_to("real")
    writes(store, link, True)
    assert link.is_symlink() and is_whole(real.read_bytes()) and real.stat().st_mode & 0o777 == 0o600
    assert sorted(tmp_path.iterdir()) == sorted([real, link])


@every_writer
def test_a_link_to_no_file_leads_to_a_new_one(store, tmp_path, name, writes, is_whole):
    (tmp_path / "folder").mkdir()
    link = tmp_path / name
    link.symlink_to("folder/new")
    before = os.umask(0o027)
    try:
        writes(store, link, False)
    finally:
        os.umask(before)
    new = tmp_path / "folder" / "new"
    assert link.is_symlink() and is_whole(new.read_bytes()) and new.stat().st_mode & 0o777 == 0o640


@every_writer
def test_links_in_a_circle_are_said(store, tmp_path, name, writes, is_whole):
    (tmp_path / name).symlink_to("other")
    (tmp_path / "other").symlink_to(name)
    with pytest.raises((ExportError, OSError), match=r"(?i)symbolic links"):
        writes(store, tmp_path / name, False)
    assert (tmp_path / name).is_symlink()


@pytest.mark.parametrize(("name", "writes"), [("t.json", _timeline), ("t.parquet", _table)])
def test_a_link_to_a_file_is_no_way_around_force(store, tmp_path, name, writes):
    (tmp_path / "real").write_bytes(b"before")
    (tmp_path / name).symlink_to("real")
    with pytest.raises(UsageError, match="--force"):
        writes(store, tmp_path / name, False)
    assert (tmp_path / "real").read_bytes() == b"before"


def test_a_reader_that_leaves_is_one_line(store, tmp_path, monkeypatch):
    """The pipe is closed at the other end before anything is written: no traceback, and the pipe stays."""
    pipe = tmp_path / "t.json"
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: os.close(os.open(pipe, os.O_RDONLY)), daemon=True)
    reader.start()
    monkeypatch.setattr(write, "write_steps_and_gaps", lambda *_: reader.join(10))
    with pytest.raises(ExportError, match=r"t\.json: cannot be written \(Broken pipe\)"):
        _timeline(store, pipe, False)
    assert pipe.is_fifo()


def test_the_size_of_what_went_through_a_pipe_is_not_told(store, tmp_path):
    pipe = tmp_path / "t.json"
    os.mkfifo(pipe)
    threading.Thread(target=pipe.read_bytes, daemon=True).start()
    with traceanalyzer.open(store) as traces:
        (row,) = traces.export_timeline(pipe).files.rows()
    assert row["file_bytes"] is None and row["rows"] > 2
