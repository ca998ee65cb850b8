"""Batches that are joined or held back give the same rows, whether they were kept in memory or on disk."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.errors import SourceError
from traceanalyzer.schema import batches
from traceanalyzer.schema.batches import HeldBatches, is_single, joined, single_if_possible

CELLS = st.one_of(st.none(), st.integers(-(2**40), 2**40))
NAMES = ("a", "b", "c")


@st.composite
def tables(draw):
    """Some batches as lists of rows; a batch need not have every column."""
    out = []
    for _ in range(draw(st.integers(1, 5))):
        names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
        constant = draw(st.booleans())
        count = draw(st.integers(1, 6))
        row = {name: draw(CELLS) for name in names}
        out.append([row if constant else {name: draw(CELLS) for name in names} for _ in range(count)])
    return out


def arrays(rows):
    batch = {}
    for name in rows[0]:
        cells = [row[name] for row in rows]
        data = np.array([0 if c is None else c for c in cells], np.int64)
        null = np.array([c is None for c in cells])
        batch[name] = np.ma.MaskedArray(data, null) if null.any() else single_if_possible(data)
    return batch


def rows_of(batch):
    columns = {name: values.tolist() for name, values in batch.items()}
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def whole(parts):
    """All rows with all columns."""
    names = {name for rows in parts for name in rows[0]}
    return [{name: row.get(name) for name in names} for rows in parts for row in rows]


@given(tables())
def test_joined_batches_have_all_rows_in_order(parts):
    assert rows_of(joined([arrays(rows) for rows in parts])) == whole(parts)


@given(tables(), st.integers(1, 7), st.sampled_from([0, 30, 1 << 20]))
def test_held_batches_come_back_in_pieces_of_the_wanted_size(parts, size, most_bytes):
    held = HeldBatches("t.json", most_bytes)
    for rows in parts:
        held.add(arrays(rows))
    assert held.rows == sum(map(len, parts))
    pieces = [rows_of(batch) for batch in held.take_joined(size)]
    found = [row for piece in pieces for row in piece]
    assert [{k: v for k, v in row.items() if v is not None} for row in found] == [
        {k: v for k, v in row.items() if v is not None} for row in whole(parts)
    ]
    assert all(len(piece) == size for piece in pieces[:-1])
    assert list(held.take()) == []


def test_a_column_of_one_value_takes_no_room():
    held = HeldBatches("t.json", most_bytes=100)
    held.add({"a": single_if_possible(np.full(1000, 7)), "b": single_if_possible(np.full(1000, 2**40))})
    assert held._file is None  # 16 kB of values, and nothing to write
    (batch,) = held.take()
    assert is_single(batch["a"])
    assert batch["b"].tolist() == [2**40] * 1000


@pytest.mark.parametrize("values", [np.array([1, 2, 1]), np.array([1.0, 1.0]), np.ma.MaskedArray([1, 1], [0, 1])])
def test_other_columns_stay_what_they_are(values):
    assert single_if_possible(values) is values


def test_a_full_disk_is_one_line_that_names_the_trace(monkeypatch):
    def full(**_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(batches.tempfile, "TemporaryFile", full)
    held = HeldBatches("t.json", most_bytes=0)
    with pytest.raises(SourceError, match=r"t\.json.*No space left on device.*TMPDIR"):
        held.add({"a": np.arange(3)})
