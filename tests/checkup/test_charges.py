"""What the ledger of a device is charged to: hand-computed cases, and sums on real traces."""

from collections import Counter

import pytest

from tests.support.store_builder import Capture, store_of
from traceanalyzer import open as open_store
from traceanalyzer.checkup.charges import CHARGED_TO, LEFT_OVER
from traceanalyzer.passes.causes import Cause
from traceanalyzer.schema.kinds import EventKind

NOT_CHARGED = {Cause.UNATTRIBUTED, Cause.COMMUNICATION_ONLY, Cause.COPY_ONLY}


def charges(traces, **selection):
    return list(traces.checkup(**selection).charges.rows())


def by_verdict(rows):
    out = Counter()
    for row in rows:
        out[row["verdict"], row["category"], row["note"]] += row["ns"]
    return dict(out)


def test_every_cause_of_the_device_lane_has_a_verdict_or_is_left_over():
    assert set(CHARGED_TO) | NOT_CHARGED == set(Cause)


def test_without_steps_the_whole_span_is_charged(tmp_path):
    """One kernel, 100 ns in an operator, 40 ns in its launch, 10 ns until it starts; then outside of all events."""
    capture = Capture()
    capture.kernel(0, 100, 1)
    capture.launch(-20, -10, 1)
    capture.operator("aten::mm", 120, 240, [])
    capture.launch(200, 240, 2)
    capture.kernel(250, 300, 2)
    with open_store(store_of(tmp_path / "s.duckdb", capture)) as traces:
        answer = traces.checkup()
        rows = charges(traces)
    assert by_verdict(rows) == {
        ("compute", "compute", None): 150,
        ("host_bound", "idle:outside_events", None): 20,
        ("launch_bound", "idle:framework", None): 80,
        ("launch_bound", "idle:launch_call", None): 40,
        ("launch_bound", "idle:launch_latency", None): 10,
    }
    assert any("no steps" in text for text in answer.warnings)
    assert next(row["confidence"] for row in answer.verdicts.rows()) == "low"


def steps(capture, *starts, last):
    for number, (start, end) in enumerate(zip(starts, (*starts[1:], last), strict=True)):
        capture.event(EventKind.STEP_MARK, f"ProfilerStep#{number}", start, end)


def blocked(capture, at, correlation, calls):
    """A step of one kernel of 100 ns, then blocking calls each followed by a kernel of 10 ns that is launched anew."""
    capture.launch(at, at + 10, correlation)
    capture.kernel(at + 10, at + 110, correlation)
    now = at + 20
    for k in range(calls):
        busy_until = at + 110 + 60 * k
        capture.event(EventKind.API_CALL, "cudaStreamSynchronize", now, busy_until + 10)
        capture.launch(busy_until + 20, busy_until + 40, correlation + 1 + k)
        capture.kernel(busy_until + 50, busy_until + 60, correlation + 1 + k)
        now = busy_until + 42


@pytest.mark.parametrize(("calls", "verdict"), [(2, "launch_bound"), (3, "sync_bound")])
def test_refill_is_of_synchronisation_from_three_blocking_calls_a_step_on(tmp_path, calls, verdict):
    """After each call: 20 ns of a launch call and 10 ns until the kernel starts.

    The first launch of the next step is refill as well: nothing is queued yet.
    """
    capture = Capture()
    for number in range(4):
        blocked(capture, 1000 * number, 10 * number + 1, calls)
    steps(capture, 0, 1000, 2000, 3000, last=4000)
    with open_store(store_of(tmp_path / "s.duckdb", capture)) as traces:
        rows = by_verdict(charges(traces))
    counted = 3  # the first step has nothing before it
    assert rows[verdict, "idle:launch_call", "refill"] == counted * (calls * 20 + 10)
    assert rows[verdict, "idle:launch_latency", "refill"] == counted * calls * 10
    assert rows["sync_bound", "idle:sync", None] == counted * calls * 10
    assert rows["compute", "compute", None] == counted * (100 + 10 * calls)
    assert sum(rows.values()) == counted * 1000


def test_pauses_of_the_device_are_told_apart(tmp_path):
    capture = Capture()
    capture.launch(0, 10, 1).kernel(20, 1000, 1)
    capture.launch(10, 20, 2).kernel(2000, 3000, 2)  # queued: a pause of 1 us
    capture.launch(20, 30, 3).kernel(13000, 14000, 3)  # and one of 10 us
    with open_store(store_of(tmp_path / "s.duckdb", capture)) as traces:
        rows = by_verdict(charges(traces))
    assert rows["dependency_bound", "idle:device_gap", "pause"] == 1000
    assert rows["dependency_bound", "idle:device_gap", None] == 10_000


def sampled(capture, at, correlation, *, apart, count=3, period=1000):
    """Launches `apart` ns from each other, kernels of 10 ns; Python samples every `period` ns."""
    for k in range(count):
        capture.launch(at + k * apart, at + k * apart + 10, correlation + k)
        capture.kernel(at + k * apart + 10, at + k * apart + 20, correlation + k)


@pytest.mark.parametrize(("apart", "verdict"), [(500, "launch_bound"), (5000, "host_bound")])
def test_sampled_python_counts_as_launching_where_it_is_shorter_than_a_period(tmp_path, apart, verdict):
    capture = Capture()
    sampled(capture, 0, 1, apart=apart, count=4)
    for t in range(-2000, 4 * apart, 1000):
        capture.sample(t, "/w/a.py(3): f")
    with open_store(store_of(tmp_path / "s.duckdb", capture)) as traces:
        rows = by_verdict(charges(traces))
    python = {key: ns for key, ns in rows.items() if key[1] == "idle:python"}
    assert {key[0] for key in python} == {verdict}
    assert sum(python.values()) > 0
    assert LEFT_OVER not in {key[0] for key in rows}
