"""Rows reach the store in their order, with the numbers that other rows know them by."""

import numpy as np
import pytest

from traceanalyzer.schema.kinds import EventKind, RankSource
from traceanalyzer.store import catalog
from traceanalyzer.store.commit import CaptureRow, commit_capture
from traceanalyzer.store.database import open_to_write
from traceanalyzer.store.staging import Staging

KERNEL = 0
COUNT = 300_000  # more than two row groups of the engine


@pytest.fixture
def store(tmp_path):
    """Stores what a function writes to the sink; gives rows of a query."""
    connection = open_to_write(tmp_path / "s.duckdb")

    def stored(write, query):
        staging = Staging("t.json")
        write(staging)
        connection.execute("BEGIN TRANSACTION")
        number = catalog.next_capture(connection)
        catalog.touch_run(connection, catalog.RunChoice(f"run{number}", "."))
        row = CaptureRow(number, f"run{number}", "t.json", "torch", f"hash{number}".strip, 1, 0, RankSource.METADATA)
        commit_capture(connection, staging, row)
        connection.execute("COMMIT")
        return connection.execute(query).fetchall()

    yield stored
    connection.close()


def kernels(start, **more):
    count = len(start)
    return {
        "device": np.zeros(count, np.int32),
        "kind": np.full(count, KERNEL, np.uint8),
        "start_ns": start,
        "end_ns": start + 1,
        **more,
    }


def test_rows_of_many_batches_keep_their_order(store):
    def write(sink):
        for low in range(0, COUNT, 70_000):
            sink.write("gpu_ops", kernels(np.arange(low, min(low + 70_000, COUNT))))

    rows = store(write, "SELECT op_id, start_ns, stream FROM stored.gpu_ops")
    assert rows == [(k, k, None) for k in range(COUNT)]


def test_columns_that_only_some_batches_have_are_null_elsewhere(store):
    def write(sink):
        sink.write("gpu_ops", kernels(np.arange(2)))
        sink.write("gpu_ops", kernels(np.arange(2, 4), stream=np.array([7, 7]), name=sink.texts.codes(["a", None])))

    rows = store(write, "SELECT op_id, stream, name FROM gpu_ops ORDER BY op_id")
    assert rows == [(0, None, None), (1, None, None), (2, 7, "a"), (3, 7, None)]


def test_rows_with_absurd_times_are_left_out_and_the_others_keep_their_numbers(store):
    def write(sink):
        sink.write("gpu_ops", kernels(np.array([5, (1 << 62) + 5, 7])))
        sink.write("collectives", {"op_id": np.array([2])})

    rows = store(write, "SELECT o.op_id, o.start_ns, o.lane FROM gpu_ops o ORDER BY ALL")
    assert rows == [(0, 5, "compute"), (2, 7, "communication")]


def test_a_batch_of_absurd_times_only_leaves_no_rows(store):
    def write(sink):
        sink.write("gpu_ops", kernels(np.array([(1 << 62) + 5])))
        event = {"kind": np.array([1], np.uint8), "start_ns": np.array([1 << 62]), "end_ns": np.array([1 << 62])}
        sink.write("cpu_events", event)
        sink.write("gpu_ops", kernels(np.array([7])))

    assert store(write, "SELECT op_id, start_ns, (SELECT count(*) FROM cpu_events) FROM gpu_ops") == [(1, 7, 0)]


def test_nodes_that_are_all_null(store):
    def write(sink):
        sink.write("samples", {"t_ns": np.array([5, 6]), "node_id": np.array([-1, -1]), "kind": np.zeros(2, np.uint8)})

    assert store(write, "SELECT t_ns, node_id FROM samples") == [(5, None), (6, None)]


def test_ranges_that_mark_steps_are_no_part_of_stacks(store):
    def write(sink):
        names = sink.texts.codes(["step 1", "load", "cudaLaunchKernel"])
        columns = {"process": np.ones(3, np.int64), "thread": np.ones(3, np.int64), "name": names}
        kinds = np.array([EventKind.RANGE, EventKind.RANGE, EventKind.API_CALL], np.uint8)
        sink.write("cpu_events", columns | {"kind": kinds, "start_ns": np.arange(3), "end_ns": np.array([9, 8, 7])})

    rows = store(write, "SELECT kind, parent_id, depth, node_id IS NULL FROM cpu_events ORDER BY event_id")
    assert rows == [("step_mark", None, None, True), ("range", None, 0, False), ("api_call", 1, 1, False)]


def test_devices_are_those_listed_and_those_used(store):
    def write(sink):
        sink.write("devices", {"device": np.array([2, 0], np.int32), "name": sink.texts.codes(["b", "a"])})
        sink.write("gpu_ops", kernels(np.arange(3), device=np.array([1, 1, 2], np.int32)))

    rows = store(write, "SELECT device, name, n_ops FROM devices")
    assert rows == [(0, "a", 0), (1, None, 2), (2, "b", 1)]


def test_names_and_nodes_of_a_second_capture_are_those_of_the_first(store):
    def write(sink):
        node = sink.stacks.node(sink.stacks.node(-1, "main"), "inner", "file.py", 3)
        sink.write("samples", {"t_ns": np.array([5]), "node_id": np.array([node]), "kind": np.zeros(1, np.uint8)})

    assert store(write, "SELECT count(*), count(DISTINCT node_id) FROM samples") == [(1, 1)]
    query = "SELECT count(*), count(DISTINCT node_id), (SELECT count(*) FROM stack_nodes) FROM samples"
    assert store(write, query) == [(2, 1, 2)]


def test_a_capture_without_rows_is_stored(store):
    assert store(lambda sink: None, "SELECT capture, start_ns FROM captures") == [(0, None)]
