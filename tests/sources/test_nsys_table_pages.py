"""Rows that are decoded from the pages of the file are those that SQLite gives."""

import sqlite3
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from traceanalyzer.sources.nsys_sqlite.database import NULL, Database
from traceanalyzer.sources.nsys_sqlite.table_pages import NotPlain, TablePages

NUMBERS = [
    0,
    1,
    2,
    -1,
    127,
    -128,
    128,
    32767,
    -32768,
    8388607,
    -8388608,
    2**31 - 1,
    -(2**31),
    2**47 - 1,
    -(2**47),
    2**62,
    -(2**62),
]


def write(path, rows, declared="a INTEGER, b INTEGER, c TEXT, d REAL", page_size=4096, more=()):
    path.unlink(missing_ok=True)
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA page_size = {page_size}")
    db.execute(f"CREATE TABLE t ({declared})")
    if rows:
        db.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(rows[0]))})", rows)
    for statement in more:
        db.execute(statement)
    db.commit()
    db.close()
    return path


def blocks(path, fast=True):
    """Rows by the reader, with or without decoding pages; and whether pages were decoded to the end."""
    database = Database(path)
    plain = dict(database._plain)
    if not fast:
        database._plain = {}
    out = [
        (NULL if a is None else a, NULL if b is None else b, c, d)
        for block in database.blocks("t", ("a", "b"), ("c", "d"))
        for a, b, c, d in zip(
            block["a"].tolist(), block["b"].tolist(), block.values("c"), block.values("d"), strict=True
        )
    ]
    assert database.lost == {}
    whole = True
    try:
        for _ in database._pages.records(plain.get("t", 0), len(database._columns["t"]), [0]):
            pass
    except NotPlain:
        whole = False
    database.close()
    return out, whole


def compare(path, decoded=True):
    rows, whole = blocks(path)
    assert rows == blocks(path, fast=False)[0]
    assert [type(v) for row in rows for v in row] == [type(v) for row in blocks(path, fast=False)[0] for v in row]
    assert whole is decoded
    return rows


@pytest.mark.parametrize("page_size", [512, 4096, 65536])
def test_integers_of_every_length_over_many_pages(tmp_path, page_size):
    rows = [(n, NUMBERS[-1 - k % len(NUMBERS)], None, None) for k in range(300) for n in (*NUMBERS, None)]
    assert len(compare(write(tmp_path / "a.sqlite", rows, page_size=page_size))) == len(rows)


def test_texts_bytes_and_real_numbers(tmp_path):
    rows = [(1, 2, "x" * n, n / 3) for n in (0, 1, 57, 58, 59, 200, 1500)]
    rows += [(1, None, "äöü\x00", 3.0), (1, 2, struct.pack("<Q", 7), None), (5, 6, None, -0.0)]
    assert compare(write(tmp_path / "a.sqlite", rows))[-1] == (5, 6, None, -0.0)


def test_long_records_are_left_to_sqlite_from_there_on(tmp_path):
    rows = [(k, k, "long" * 5000 if k == 700 else "short", None) for k in range(1000)]
    found = compare(write(tmp_path / "a.sqlite", rows, page_size=512), decoded=False)
    assert [row[0] for row in found] == list(range(1000))


def test_a_column_that_was_added_later_is_left_to_sqlite(tmp_path):
    path = write(
        tmp_path / "a.sqlite",
        [(1, 2, "c")],
        "a INTEGER, b INTEGER, c TEXT",
        more=["ALTER TABLE t ADD d REAL DEFAULT 4.5"],
    )
    assert compare(path, decoded=False) == [(1, 2, "c", 4.5)]


def test_text_in_a_column_of_integers(tmp_path):
    path = write(tmp_path / "a.sqlite", [(1, 2, None, None), ("many", 3, None, None), (4, 5.0, None, None)])
    assert (
        blocks(path)[0]
        == blocks(path, fast=False)[0]
        == [(1, 2, None, None), (NULL, 3, None, None), (4, 5, None, None)]
    )


def test_keys(tmp_path):
    declared = "a INTEGER {}, b INTEGER NOT NULL, c TEXT, d REAL {}"
    rows = [(9, 1, "x", None), (4, 2, "y", None), (7, 3, "z", None)]
    assert [r[0] for r in compare(write(tmp_path / "a.sqlite", rows, declared.format("PRIMARY KEY", "")))] == [4, 7, 9]
    compare(write(tmp_path / "b.sqlite", rows, declared.format("", ", PRIMARY KEY (a, b)")))
    path = write(tmp_path / "c.sqlite", rows, declared.format("", ", PRIMARY KEY (a, b)") + ") WITHOUT ROWID --")
    assert blocks(path)[0] == blocks(path, fast=False)[0]


def test_tables_with_holes_and_without_rows(tmp_path):
    rows = [(k, -k, None, None) for k in range(5000)]
    holes = write(
        tmp_path / "a.sqlite", rows, more=["DELETE FROM t WHERE a % 7 != 3", "UPDATE t SET b = 2 WHERE a % 2 = 0"]
    )
    assert len(compare(holes)) == 714
    assert compare(write(tmp_path / "b.sqlite", [])) == []


def test_a_table_of_another_encoding_is_left_to_sqlite(tmp_path):
    path = tmp_path / "a.sqlite"
    db = sqlite3.connect(path)
    db.execute("PRAGMA encoding = 'UTF-16le'")
    db.execute("CREATE TABLE t (a INTEGER, b INTEGER, c TEXT, d REAL)")
    db.execute("INSERT INTO t VALUES (1, 2, 'text', 0.5)")
    db.commit()
    db.close()
    assert compare(path, decoded=False) == [(1, 2, "text", 0.5)]


def test_damaged_pages_are_never_decoded_into_rows_of_their_own(tmp_path):
    path = write(tmp_path / "a.sqlite", [(k, k, "abc", 0.5) for k in range(2000)], page_size=512)
    raw, random = path.read_bytes(), np.random.default_rng(7)
    good = set(blocks(path)[0])
    for _ in range(60):
        torn = bytearray(raw)
        page = int(random.integers(2, len(raw) // 512)) * 512
        torn[page : page + 512] = random.bytes(512)
        path.write_bytes(torn)
        database = Database(path)
        for block in database.blocks("t", ("a", "b"), ("c", "d")):
            rows = zip(block["a"].tolist(), block["b"].tolist(), block.values("c"), block.values("d"), strict=True)
            assert set(rows) <= good
        assert "t" in database.lost
        database.close()


def test_a_file_that_is_shorter_than_a_page(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"SQLite format 3\x00")
    pages = TablePages(path)
    with pytest.raises(NotPlain):
        next(pages.records(2, 1, [0]))
    pages.close()


VALUES = st.one_of(st.none(), st.integers(-(2**62), 2**62), st.integers(-300, 300))
ANY = st.one_of(VALUES, st.text(max_size=300), st.binary(max_size=300), st.floats(allow_nan=False))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(VALUES, VALUES, ANY, ANY), max_size=60), st.sampled_from([512, 1024, 4096]))
def test_any_rows(tmp_path: Path, rows, page_size):
    clean = [tuple(v.encode("utf-8", "replace").decode() if isinstance(v, str) else v for v in row) for row in rows]
    path = write(tmp_path / "any.sqlite", clean, page_size=page_size)
    assert blocks(path)[0] == blocks(path, fast=False)[0]
