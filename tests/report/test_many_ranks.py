"""A job of more ranks than a page can show one by one: parts are told together, and what is left out is said."""

import pytest

from tests.report.parsed_page import ParsedPage
from tests.support.store_builder import Capture, store_of
from traceanalyzer import open as open_store
from traceanalyzer.schema.kinds import EventKind

RANKS, STEPS = 12, 4
SLOW = 9
"""The rank whose step 3 is longest: it idles for 400 ns more."""


def of_rank(rank: int) -> Capture:
    capture = Capture()
    for step in range(STEPS):
        t, late = 10_000 * step, 400 if (rank, step) == (SLOW, 3) else 0
        capture.event(EventKind.STEP_MARK, f"ProfilerStep#{step}", t, t + 10_000)
        capture.event(EventKind.PYTHON_FRAME, "train.py(3): load", t + 10, t + 2_900)
        capture.launch(t + 2_000, t + 2_010, 2 * step + 1).kernel(t + 2_100 + rank, t + 9_000, 2 * step + 1)
        capture.launch(t + 2_020, t + 2_030, 2 * step + 2).kernel(t + 9_100 + late, t + 9_900 + late, 2 * step + 2)
    return capture


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    store = store_of(tmp_path_factory.mktemp("many") / "s.duckdb", *map(of_rank, range(RANKS)), run="big job")
    with open_store(store) as traces:
        report = traces.report(inputs="--db s.duckdb")
        yield traces, report, ParsedPage(report.html)


def test_parts_of_all_ranks_are_told_together(made):
    traces, _, page = made
    told = page.tables["ledger", "totals_over_devices"]
    rows = {cells["category"][1]: cells for _, cells in told.rows}
    compute = [row["ns"] for row in traces.ledger().totals.rows() if row["category"] == "compute"]
    assert len(compute) == RANKS
    assert float(rows["compute"]["mean_ns"][0]) == round(sum(compute) / RANKS)
    assert float(rows["compute"]["min_ns"][0]) == min(compute) == compute[-1]
    assert float(rows["compute"]["max_ns"][0]) == max(compute) == compute[0]
    assert rows["compute"]["max_on"][1] == "rank 0"
    assert len(page.tables["gaps", "devices"].rows) == RANKS
    assert "over 12 devices" in page.text


def test_pictures_have_few_ranks_and_say_so(made):
    _, _, page = made
    assert "The longest step that counts: step 3, 8 of 12 devices" in page.text
    rows = {name for trace in page.figures["figure-step-worst"]["traces"] for name in trace["y"]}
    assert len(rows) == 8
    assert f"rank {SLOW}" in rows
    bars = {name for trace in page.figures["figure-ledger"]["traces"] for name in trace["y"]}
    assert bars == {f"rank {rank}" for rank in range(RANKS)}


def test_commands_name_the_run(made):
    _, report, page = made
    assert page.commands
    assert all("--run 'big job'" in command and "--db s.duckdb" in command for command in page.commands)
    assert len(report.html.encode()) < 2_000_000
