"""What the package promises to those who install it."""

import re
import tomllib
from pathlib import Path

import duckdb
import numpy as np
import pytest

REPOSITORY = Path(__file__).parents[1]
SAMPLE_BYTES = 2_500_000


@pytest.fixture(scope="module")
def project():
    """The declarations of pyproject.toml."""
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text())


def test_lowest_versions_are_the_declared_bounds(project):
    declared = {re.split("[<>=!]", need)[0]: need for need in project["project"]["dependencies"]}
    pinned = [line for line in (REPOSITORY / "tests/lowest.txt").read_text().splitlines() if not line.startswith("#")]
    assert sorted(declared) == [pin.partition("==")[0] for pin in pinned]
    for pin in pinned:
        name, _, version = pin.partition("==")
        assert declared[name] in (f"{name}>={version}", f"{name}>={version.removesuffix('.0')}")


def test_the_core_does_without_arrow_and_polars(project):
    heavy = ("pyarrow", "polars", "pandas")
    assert not [need for need in project["project"]["dependencies"] if need.startswith(heavy)]


def test_sample_traces_are_small_and_told_of():
    folder = REPOSITORY / "sample_traces"
    files = [path for path in folder.rglob("*") if path.is_file()]
    told = (folder / "README.md").read_text(encoding="utf-8")
    assert sum(path.stat().st_size for path in files) < SAMPLE_BYTES
    for path in files:
        # The file of rank 0 is told of for those of all ranks.
        named = {f"`{path.name}`", "`" + re.sub(r"^rank\d+", "rank0", path.name) + "`"}
        assert path.name == "README.md" or (f"`{path.parent.name}`" in told and any(name in told for name in named))


def test_duckdb_takes_masked_arrays_as_nulls():
    values = np.ma.masked_array(np.arange(3), mask=[False, True, False])
    with duckdb.connect() as connection:
        connection.register("batch", {"value": values})
        assert connection.execute("SELECT value FROM batch").fetchall() == [(0,), (None,), (2,)]


def test_duckdb_keeps_comments_on_columns_of_views():
    with duckdb.connect() as connection:
        connection.execute("CREATE VIEW v AS SELECT 1 AS a; COMMENT ON COLUMN v.a IS 'meaning'")
        found = connection.execute("SELECT comment FROM duckdb_columns() WHERE table_name = 'v'").fetchall()
    assert found == [("meaning",)]
