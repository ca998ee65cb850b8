"""What a store holds: the order of its devices, and counts in words."""

import duckdb

import traceanalyzer
from tests.support.store_builder import Capture, store_of
from traceanalyzer.schema.kinds import EventKind


def test_devices_that_nothing_ran_on_come_last(tmp_path):
    store = store_of(tmp_path / "s.duckdb", Capture().kernel(0, 1, device=1), Capture().kernel(0, 1))
    with duckdb.connect(str(store)) as connection:
        unused = [(0, 0), (0, 2), (1, 1), (1, 2)]
        connection.executemany("INSERT INTO stored.devices (capture, device, n_ops) VALUES (?, ?, 0)", unused)
    with traceanalyzer.open(store) as traces:
        rows = [(r["capture"], r["rank"], r["device"], r["n_ops"]) for r in traces.info().devices.rows()]
    assert rows[:2] == [(0, 0, 1, 1), (1, 1, 0, 1)]
    assert rows[2:] == [(0, None, 0, 0), (1, None, 1, 0), (0, None, 2, 0), (1, None, 2, 0)]


def test_one_of_a_kind_is_singular(tmp_path):
    capture = Capture().launch(0, 5, 1).kernel(10, 20, 1)
    capture.event(EventKind.OPERATOR, "aten::mm", 0, 9).event(EventKind.STEP_MARK, "ProfilerStep#1", 0, 30)
    with traceanalyzer.open(store_of(tmp_path / "s.duckdb", capture)) as traces:
        reasons = {r["question"]: r["reason"] for r in traces.info().answers.rows()}
    assert reasons["gaps"] == "1 device operation" and reasons["steps"] == "1 step mark"
    assert reasons["python_stacks"] == "no Python frames; 1 operator and 0 ranges stand in for them"
