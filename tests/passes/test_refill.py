"""Refill: what a synchronisation costs after it returned, against a slow loop and on timelines worked out by hand.

A gap is drained where the launching thread is inside a call that blocks on the device when the gap begins. Refill are
the pieces `framework`, `api_call`, `launch_call`, `launch_latency` of a drained gap, and of those after it on the
device until an operation is again launched before its predecessor ends.
"""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import traceanalyzer
from tests.support.real_traces import MISSING, TRACES, opened, rows
from tests.support.store_builder import Capture, store_of
from traceanalyzer.schema.kinds import CopyKind, EventKind

REFILL = {"framework", "api_call", "launch_call", "launch_latency"}
NEVER = 1 << 60

CALLS = st.tuples(
    st.sampled_from(("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventQuery", "cudaFree", "aten::mm")),
    st.integers(0, 110),
    st.integers(0, 30),
    st.sampled_from((1, 2)),
)
"""Name, start, length, thread of what is open beside the launches."""
KINDS = ("kernel", "kernel", "kernel", "read back", "read back pinned", "blocking copy", "pageable copy")
OPS = st.tuples(
    st.sampled_from(KINDS),
    st.integers(0, 100),
    st.integers(1, 10),
    st.integers(1, 30),
    st.integers(0, 40),
    st.sampled_from((1, 1, 1, 2, None)),
)
"""Kind, start, length of an operation; how long before it its call began, the call's length, and its thread or none."""
WAYS = {
    "read back": ("cudaMemcpyAsync", CopyKind.DTOH, True),
    "read back pinned": ("cudaMemcpyAsync", CopyKind.DTOH, False),
    "blocking copy": ("cudaMemcpy", CopyKind.HTOD, False),
    "pageable copy": ("cudaMemcpyAsync", CopyKind.HTOD, True),
}
BLOCKING = {"read back", "blocking copy"}
"""Copies whose calls wait until the device begins to copy."""


def capture_of(calls, ops):
    capture = Capture()
    for name, start, length, thread in calls:
        kind = EventKind.OPERATOR if "::" in name else EventKind.API_CALL
        capture.event(kind, name, start, start + length, None, thread)
    for k, (kind, start, length, lead, call, thread) in enumerate(ops, 1):
        key = k if thread else None
        name, way, pageable = WAYS.get(kind, ("cudaLaunchKernel", None, False))
        if way is None:
            capture.kernel(start, start + length, key)
        else:
            capture.copy(start, start + length, key, way, pageable)
        if thread:
            capture.launch(start - lead, start - lead + call, k, name, thread)
    return capture


def refilled(calls, ops):
    """{start of a gap: whether it is refilled}, operation by operation in the order in which they start.

    A copy that blocks counts also where it is itself what ends the gap: a read-back is a synchronisation.
    """
    blocked = [(s, s + n, thread) for name, s, n, thread in calls if name.endswith("Synchronize")]
    for kind, start, _, lead, call, thread in ops:
        if kind in BLOCKING and thread:
            blocked.append((start - lead, min(start, start - lead + call), thread))
    told = {}
    refill, until = False, None
    # Of those that start together the one that was launched first counts.
    for _, start, length, lead, _, thread in sorted(ops, key=lambda op: (op[1], op[1] - op[3] if op[5] else NEVER)):
        launched = start - lead if thread else None
        if until is not None:
            # Not known to have been launched after it: it does not go on.
            refill = refill and launched is not None and launched >= until
            if start > until:
                refill = refill or any(s <= until < e and thread == own for s, e, own in blocked)
                told[until] = refill
        until = start + length if until is None else max(until, start + length)
    return told


RANK = st.tuples(st.lists(CALLS, max_size=6), st.lists(OPS, min_size=2, max_size=8))


@settings(max_examples=20, deadline=None)
@given(st.lists(RANK, min_size=4, max_size=6))
def test_refill_against_a_slow_loop(ranks):
    """Several captures share a store: to make one takes longer than to ask it."""
    with tempfile.TemporaryDirectory() as folder:
        store = store_of(Path(folder) / "s.duckdb", *(capture_of(*rank) for rank in ranks))
        with traceanalyzer.open(store) as traces:
            found = rows(traces.sql("SELECT * FROM gap_pieces ORDER BY capture, gap, start_ns"), "rows")
    for number, (calls, ops) in enumerate(ranks):
        check_refill([piece for piece in found if piece["rank"] == number], refilled(calls, ops))


def check_refill(pieces, expected):
    begin = {}
    for piece in pieces:
        begin.setdefault(piece["gap"], piece["start_ns"])
    assert sorted(begin.values()) == sorted(expected)
    for piece in pieces:
        due = expected[begin[piece["gap"]]] and piece["cause"] in REFILL
        assert piece["refill"] == due, piece


def pieces_of(tmp_path, capture):
    """(start, end, cause, refill) of all pieces."""
    with traceanalyzer.open(store_of(tmp_path / "s.duckdb", capture)) as traces:
        found = rows(traces.sql("SELECT * FROM gap_pieces ORDER BY gap, start_ns"), "rows")
    return [(p["start_ns"], p["end_ns"], p["cause"], p["refill"]) for p in found]


def launched(capture, key, call, start, end, thread=1):
    """A kernel of [start, end) whose call is [call, call + 10)."""
    return capture.launch(call, call + 10, key, thread=thread).kernel(start, end, key)


def test_refill_is_from_the_drained_gap_to_the_next_operation_that_is_queued(tmp_path):
    capture = launched(Capture(), 1, 0, 20, 100)
    capture.launch(50, 130, 90, "cudaDeviceSynchronize").event(EventKind.PYTHON_FRAME, "a.py(1): f", 130, 150)
    capture.event(EventKind.OPERATOR, "aten::mm", 150, 300)
    launched(capture, 2, 160, 180, 200)  # ends the drained gap [100, 180)
    launched(capture, 3, 210, 230, 260)  # launched after the one before it ended: goes on
    launched(capture, 4, 240, 265, 280)  # launched while the one before it ran: the queue is filled
    launched(capture, 5, 290, 310, 320)
    assert pieces_of(tmp_path, capture) == [
        (100, 130, "sync", False),
        (130, 150, "python", False),
        (150, 160, "framework", True),
        (160, 170, "launch_call", True),
        (170, 180, "launch_latency", True),
        (200, 210, "framework", True),
        (210, 220, "launch_call", True),
        (220, 230, "launch_latency", True),
        (260, 265, "device_gap", False),
        (280, 290, "framework", False),
        (290, 300, "launch_call", False),
        (300, 310, "launch_latency", False),
    ]


def test_an_operation_without_a_gap_before_it_ends_the_refill(tmp_path):
    capture = launched(Capture(), 1, 0, 20, 100).launch(50, 110, 90, "cudaStreamSynchronize")
    launched(capture, 2, 120, 140, 200)
    launched(capture, 3, 150, 190, 210)  # runs on where the one before it ends
    launched(capture, 4, 220, 240, 250)
    marks = {(start, end): refill for start, end, _, refill in pieces_of(tmp_path, capture)}
    assert marks == {
        (100, 110): False,
        (110, 120): False,
        (120, 130): True,
        (130, 140): True,
        (210, 220): False,
        (220, 230): False,
        (230, 240): False,
    }


def test_a_synchronisation_of_another_thread_drains_nothing(tmp_path):
    capture = launched(Capture(), 1, 0, 20, 100).event(EventKind.API_CALL, "cudaDeviceSynchronize", 50, 130, None, 2)
    launched(capture, 2, 140, 160, 200)
    assert not any(refill for *_, refill in pieces_of(tmp_path, capture))


@pytest.mark.parametrize("call", ["cudaEventQuery", "cudaStreamWaitEvent", "cudaFree", "cudaMemcpyAsync"])
def test_calls_that_do_not_block_on_the_device_drain_nothing(tmp_path, call):
    capture = launched(Capture(), 1, 0, 20, 100).launch(50, 130, 90, call)
    launched(capture, 2, 140, 160, 200)
    assert not any(refill for *_, refill in pieces_of(tmp_path, capture))


def test_a_read_back_drains_until_the_device_begins_to_copy(tmp_path):
    # The copy call of [50, 170) waits for its operation at 120; then it copies, and is no longer blocked.
    capture = launched(Capture(), 1, 0, 20, 100)
    capture.launch(50, 170, 2, "cudaMemcpyAsync").copy(120, 140, 2, CopyKind.DTOH, pageable=True)
    launched(capture, 3, 180, 200, 210)
    assert pieces_of(tmp_path, capture) == [
        (100, 120, "host_copy", False),
        (140, 170, "host_copy", False),
        (170, 180, "outside_events", False),
        (180, 190, "launch_call", True),
        (190, 200, "launch_latency", True),
    ]


@pytest.mark.parametrize(
    ("workload", "blocks"), [("sync_item", True), ("launch_bound", False), ("amp_small_eager", False)]
)
def test_refill_of_real_captures(workload, blocks):
    path = TRACES / workload / "torch.stack.json.gz"
    if not path.exists():
        pytest.skip(MISSING)
    with opened(path) as traces:
        pieces = rows(traces.sql("SELECT cause, refill, end_ns - start_ns AS ns FROM gap_pieces"), "rows")
    able = sum(piece["ns"] for piece in pieces if piece["cause"] in REFILL)
    refill = sum(piece["ns"] for piece in pieces if piece["refill"])
    # 24 read-backs a step leave hardly a launch that is not refill; without blocking calls there is none.
    assert refill > 0.85 * able if blocks else refill == 0


def test_an_operation_of_no_length_does_not_end_the_refill(tmp_path):
    capture = launched(Capture(), 1, 0, 20, 100).launch(50, 110, 90, "cudaStreamSynchronize")
    launched(capture, 2, 120, 140, 200)
    launched(capture, 3, 210, 225, 225)  # launched after the one before it ended, as is the next one
    launched(capture, 4, 230, 250, 260)
    marks = {(start, end): refill for start, end, cause, refill in pieces_of(tmp_path, capture) if cause in REFILL}
    assert marks == dict.fromkeys([(120, 130), (130, 140), (210, 220), (230, 240), (240, 250)], True)
