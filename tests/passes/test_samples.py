"""What a sample of a thread's Python stack stands for: against the rule instant by instant, and on tiny timelines."""

import tempfile
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import traceanalyzer
from tests.support.real_traces import MISSING, TRACES, opened, rows
from tests.support.store_builder import Capture, store_of
from traceanalyzer.passes.idle.samples import standing
from traceanalyzer.schema.kinds import EventKind

NEVER = 1 << 40
HORIZON = 400


def by_definition(at, calls, x):
    """Which sample stands for an instant, by the words of the definition; None for none.

    A sample stands from its instant to the next one, at most two sampling periods, and not beyond the end of an API
    call open at its instant; from there the next sample, if within a period, stands back to that end.
    """
    period = median([b - a for a, b in pairwise(at)] or [0])
    for k, t in enumerate(at):
        after = at[k + 1] if k + 1 < len(at) else NEVER
        end = next((e for s, e in calls if s <= t < e), None)
        until = min(after, t + 2 * period, NEVER if end is None else end)
        if t <= x < until:
            return k
        if end is not None and end <= x < after < NEVER and after - end <= period:
            return k + 1
    return None


def found(at, calls):
    """Which sample stands for each instant, by the program."""
    call, end = np.array(calls, np.int64).reshape(-1, 2).T
    low, high, own = standing(np.array(at, np.int64), np.arange(len(at), dtype=np.int32), call, end)
    out = [None] * HORIZON
    for a, b, k in zip(low.tolist(), high.tolist(), own.tolist(), strict=True):
        for x in range(a, min(b, HORIZON)):
            assert out[x] is None, "intervals overlap"
            out[x] = k
    return out


def outlives(at, calls):
    """Whether a call is open longer than a sample stands that was taken in it."""
    period = median([b - a for a, b in pairwise(at)] or [0])
    return any(s <= t < e and e >= t + 2 * period for s, e in calls for t in at)


# Distances are even, so that the median of an even number of them is a whole number.
SAMPLES = st.lists(st.integers(1, 12).map(lambda n: 2 * n), min_size=1, max_size=9).map(
    lambda steps: np.cumsum(steps).tolist()
)
CALLS = st.lists(st.tuples(st.integers(0, 25), st.integers(1, 30)), max_size=6).map(
    lambda parts: [
        (int(x) + low, int(x) + low + length)
        for (low, length), x in zip(parts, np.cumsum([0, *(a + b for a, b in parts)]), strict=False)
    ]
)
"""Disjoint calls in order: pauses and lengths."""


@settings(max_examples=200, deadline=None)
@given(SAMPLES, CALLS)
def test_samples_stand_by_the_definition(at, calls):
    assume(not outlives(at, calls))  # see the next test
    assert found(at, calls) == [by_definition(at, calls, x) for x in range(HORIZON)]


@settings(max_examples=150, deadline=None)
@given(SAMPLES.filter(lambda at: len(at) > 1), CALLS)
def test_a_sample_stands_for_its_instant_and_never_beyond_the_next(at, calls):
    got = found(at, calls)
    assert [got[t] for t in at] == list(range(len(at)))
    assert all(k is None or (-1, *at)[k] < x < (*at, NEVER)[k + 1] for x, k in enumerate(got))


def test_a_single_sample_stands_for_nothing_since_its_period_is_not_known():
    assert found([10], []) == [None] * HORIZON


def test_the_next_sample_stands_back_to_the_end_of_a_call_however_long_that_was():
    # One every 10; none in the call of [20, 45). The one at 50 comes within a period of the call's end.
    at, calls = [0, 10, 20, 50], [(20, 45)]
    assert [by_definition(at, calls, x) for x in (39, 40, 44, 45, 49)] == [2, None, None, 3, 3]
    assert found(at, calls)[45:50] == [3] * 5


MAIN = "/home/me/train.py(9): main"
LOAD, STEP = "/home/me/train.py(33): load", "/home/me/train.py(55): step"
MAIN_TEXT, LOAD_TEXT, STEP_TEXT = "main (train.py:9)", "load (train.py:33)", "step (train.py:55)"
LOADER = "/opt/lib/python3.12/site-packages/torch/utils/data/dataloader.py(733): __next__"

PATHS = """
WITH RECURSIVE paths AS (
    SELECT node_id, [frame] AS stack FROM stack_nodes WHERE parent_id IS NULL
    UNION ALL
    SELECT n.node_id, list_append(p.stack, n.frame) FROM stack_nodes n JOIN paths p ON n.parent_id = p.node_id
)
SELECT g.capture, g.start_ns, g.end_ns, g.cause, coalesce(p.stack, []) AS stack, g.sampled, g.node_id
FROM gap_pieces g LEFT JOIN paths p USING (node_id) ORDER BY g.capture, g.device, g.start_ns
"""
"""Pieces of gaps with the stacks that `stack_nodes` gives their nodes."""


def between(start=1000, end=2000):
    """A gap [start, end + 100) whose launch begins at its `end`, after a first kernel."""
    capture = Capture().launch(0, 10, 1).kernel(20, start, 1)
    return capture.launch(end, end + 50, 2).kernel(end + 100, end + 200, 2)


def pieces(tmp_path, capture, **selection):
    """(start, end, cause, stack, sampled) of all pieces before the launch; what comes after is not sampled."""
    with traceanalyzer.open(store_of(tmp_path / "s.duckdb", capture, source="nsys")) as traces:
        found = rows(traces.sql(PATHS, **selection), "rows")
        answer = traces.gaps(**selection)
    assert all(row["stack"] for row in found if row["node_id"] is not None)
    stacks = {(row["cause"], *row["stack"]): row["idle_ns"] for row in rows(answer, "stacks")}
    sums = {}
    for row in found:
        key = row["cause"], *row["stack"]
        sums[key] = sums.get(key, 0) + row["end_ns"] - row["start_ns"]
    assert sums == stacks
    *before, call, latency = found
    assert [(p["cause"], p["sampled"]) for p in (call, latency)] == [("launch_call", False), ("launch_latency", False)]
    return [(p["start_ns"], p["end_ns"], p["cause"], tuple(p["stack"]), p["sampled"]) for p in before]


def test_samples_where_nothing_else_was_recorded(tmp_path):
    capture = between().sample(1100, MAIN).sample(1200, MAIN, LOAD).sample(1300, MAIN, LOAD).sample(1400, MAIN)
    # One every 100 ns: the last one stands for 200, and nothing for what is before the first.
    assert pieces(tmp_path, capture) == [
        (1000, 1100, "outside_events", (), False),
        (1100, 1200, "python", (MAIN_TEXT,), True),
        (1200, 1400, "python", (MAIN_TEXT, LOAD_TEXT), True),
        (1400, 1600, "python", (MAIN_TEXT,), True),
        (1600, 2000, "outside_events", (), False),
    ]


def test_samples_are_inside_the_open_ranges(tmp_path):
    capture = between().event(EventKind.RANGE, "forward", 1050, 1900).event(EventKind.RANGE, "aten::mm", 1250, 1350)
    for t, frame in ((1100, LOAD), (1200, STEP), (1300, LOAD)):
        capture.sample(t, MAIN, frame)
    assert pieces(tmp_path, capture) == [
        (1000, 1050, "outside_events", (), False),
        (1050, 1100, "range", ("forward",), False),
        (1100, 1200, "python", ("forward", MAIN_TEXT, LOAD_TEXT), True),
        (1200, 1250, "python", ("forward", MAIN_TEXT, STEP_TEXT), True),
        (1250, 1300, "python", ("forward", "aten::mm", MAIN_TEXT, STEP_TEXT), True),
        (1300, 1350, "python", ("forward", "aten::mm", MAIN_TEXT, LOAD_TEXT), True),
        (1350, 1500, "python", ("forward", MAIN_TEXT, LOAD_TEXT), True),
        (1500, 1900, "range", ("forward",), False),
        (1900, 2000, "outside_events", (), False),
    ]


def test_samples_are_around_calls_of_the_system(tmp_path):
    capture = between().event(EventKind.RANGE, "forward", 1000, 2000).event(EventKind.OS_CALL, "read", 1150, 1350)
    capture.event(EventKind.OS_CALL, "poll", 1600, 1700).sample(1100, MAIN, LOAD).sample(1200, MAIN).sample(1300, MAIN)
    assert pieces(tmp_path, capture) == [
        (1000, 1100, "range", ("forward",), False),
        (1100, 1150, "python", ("forward", MAIN_TEXT, LOAD_TEXT), True),
        (1150, 1200, "os_blocked", ("forward", MAIN_TEXT, LOAD_TEXT, "read"), True),
        (1200, 1350, "os_blocked", ("forward", MAIN_TEXT, "read"), True),
        (1350, 1500, "python", ("forward", MAIN_TEXT), True),
        (1500, 1600, "range", ("forward",), False),
        (1600, 1700, "os_blocked", ("forward", "poll"), False),
        (1700, 2000, "range", ("forward",), False),
    ]


def test_a_sample_in_an_api_call_ends_with_it_and_the_next_one_stands_back(tmp_path):
    capture = between().event(EventKind.RANGE, "forward", 1000, 2000).launch(1250, 1330, 9, "cudaFree")
    capture.sample(1200, MAIN, LOAD).sample(1300, MAIN, STEP).sample(1400, MAIN, LOAD)
    assert pieces(tmp_path, capture) == [
        (1000, 1200, "range", ("forward",), False),
        (1200, 1250, "python", ("forward", MAIN_TEXT, LOAD_TEXT), True),
        (1250, 1330, "memory_management", ("forward", "cudaFree"), False),
        (1330, 1600, "python", ("forward", MAIN_TEXT, LOAD_TEXT), True),  # [1330, 1400) is of the sample at 1400
        (1600, 2000, "range", ("forward",), False),
    ]


def test_the_next_sample_does_not_stand_back_from_further_than_a_period(tmp_path):
    capture = between().launch(1250, 1330, 9, "cudaFree")
    for t, frame in ((1100, LOAD), (1200, LOAD), (1300, STEP), (1450, LOAD), (1550, LOAD)):
        capture.sample(t, MAIN, frame)
    # The median distance is 100; from the call's end to the next sample it is 120.
    assert pieces(tmp_path, capture)[2:] == [
        (1250, 1330, "memory_management", ("cudaFree",), False),
        (1330, 1450, "outside_events", (), False),
        (1450, 1750, "python", (MAIN_TEXT, LOAD_TEXT), True),
        (1750, 2000, "outside_events", (), False),
    ]


def test_a_sample_before_an_api_call_stands_again_after_it(tmp_path):
    capture = between().launch(1250, 1280, 9, "cudaFree").sample(1100, MAIN).sample(1200, MAIN).sample(1300, MAIN)
    assert pieces(tmp_path, capture)[1:4] == [
        (1100, 1250, "python", (MAIN_TEXT,), True),
        (1250, 1280, "memory_management", ("cudaFree",), False),
        (1280, 1500, "python", (MAIN_TEXT,), True),
    ]


def test_the_loader_in_a_sample_decides_for_what_it_calls(tmp_path):
    capture = between().event(EventKind.OS_CALL, "poll", 1150, 1350)
    capture.sample(1100, MAIN, LOADER, LOAD).sample(1300, MAIN, LOADER, LOAD)
    stack = (MAIN_TEXT, "__next__ (dataloader.py:733)", LOAD_TEXT)
    assert pieces(tmp_path, capture)[1:4] == [
        (1100, 1150, "input_wait", stack, True),
        (1150, 1350, "input_wait", (*stack, "poll"), True),
        (1350, 1700, "input_wait", stack, True),
    ]


def test_the_profilers_own_work_decides_over_samples_and_keeps_their_stack(tmp_path):
    capture = between().event(EventKind.OVERHEAD, "Buffer Flush", 1150, 1250).sample(1100, MAIN).sample(1300, MAIN)
    assert pieces(tmp_path, capture)[1:4] == [
        (1100, 1150, "python", (MAIN_TEXT,), True),
        (1150, 1250, "profiler", (MAIN_TEXT,), True),
        (1250, 1700, "python", (MAIN_TEXT,), True),
    ]


def test_samples_of_other_threads_stand_for_nothing(tmp_path):
    capture = between().sample(1100, MAIN, thread=2).sample(1200, MAIN, thread=2)
    assert pieces(tmp_path, capture) == [(1000, 2000, "outside_events", (), False)]


def test_a_sampled_thread_that_waits_for_a_backward_pass_gives_its_stack(tmp_path):
    backward = "/opt/lib/python3.12/site-packages/torch/autograd/graph.py(829): _engine_run_backward"
    capture = Capture().launch(0, 10, 1).kernel(20, 1000, 1).launch(2000, 2050, 2, thread=7).kernel(2100, 2200, 2)
    for t in (1200, 1300, 1400):
        capture.sample(t, MAIN, backward)
    capture.event(EventKind.OPERATOR, "aten::mm", 1250, 1280, thread=7)
    waits = (MAIN_TEXT, "_engine_run_backward (graph.py:829)")
    assert [piece[:4] for piece in pieces(tmp_path, capture)] == [
        (1000, 1200, "outside_events", ()),
        (1200, 1250, "framework", waits),
        (1250, 1280, "framework", ("aten::mm",)),
        (1280, 1600, "framework", waits),
        (1600, 2000, "outside_events", ()),
    ]


def test_pieces_of_sampled_stacks_are_blamed_and_grouped_like_others(tmp_path):
    capture = between().event(EventKind.RANGE, "forward", 1000, 2000)
    for k in range(10):
        capture.sample(1000 + 100 * k, MAIN, LOAD if k < 7 else STEP)
    with traceanalyzer.open(store_of(tmp_path / "s.duckdb", capture, source="nsys")) as traces:
        answer = traces.gaps(by="function")
        under = traces.gaps(under="load")
    blames = {row["blame"]: row["idle_ns"] for row in rows(answer, "blames")}
    assert blames == {LOAD_TEXT: 700, STEP_TEXT: 300, None: 100}
    assert {row["key"]: row["idle_ns"] for row in rows(answer, "by")}[LOAD_TEXT] == 700
    assert [row["idle_ns"] for row in rows(under, "causes")] == [700]


OPEN = {
    EventKind.RANGE: (("forward", "range"), ("enumerate(DataLoader)#x.__next__", "input_wait")),
    EventKind.OPERATOR: (("aten::mm", "framework"),),
    EventKind.OS_CALL: (("read", "os_blocked"),),
}
EVENTS = st.sampled_from(sorted(OPEN)).flatmap(
    lambda kind: st.tuples(st.just(kind), st.sampled_from(OPEN[kind]), st.integers(0, 120), st.integers(0, 40))
)
SEQUENCE = st.lists(
    st.tuples(
        st.integers(0, 12),
        st.integers(0, 7),
        st.sampled_from(("cudaFree", "cudaDeviceSynchronize", "cudaLaunchKernel", "cudaLaunchKernel")),
        st.integers(1, 25),
        st.integers(1, 12),
    ),
    min_size=2,
    max_size=8,
)
"""API calls: the pause before each, its length and name; of launches when after it the kernel starts, and how long."""
TAKEN = st.lists(st.tuples(st.integers(2, 10), st.sampled_from((LOAD, STEP, LOADER))), max_size=8)
"""Samples: the distance to the one before, halved, and the innermost frame."""
CALL_CAUSES = {"cudaFree": "memory_management", "cudaDeviceSynchronize": "sync", "cudaLaunchKernel": "launch_call"}
TEXTS = {MAIN: MAIN_TEXT, LOAD: LOAD_TEXT, STEP: STEP_TEXT, LOADER: "__next__ (dataloader.py:733)"}


def instant(x, events, calls, samples):
    """Cause, stack, and whether a sample decides, of an instant before the launch, by the words of the definition."""
    order = sorted(range(len(events)), key=lambda k: (events[k][2], -events[k][3], k))
    held = [events[k] for k in order if events[k][2] <= x < events[k][2] + events[k][3]]
    if call := next((c for c in calls if c[0] <= x < c[1]), None):
        around = tuple(sorted(held, key=lambda e: e[2] > call[0]))  # what opened in the call is inside it
        outside = [e for e in around if (e[2], -e[3]) <= (call[0], call[0] - call[1])]
        inside = [e for e in around if e not in outside]
        return CALL_CAUSES[call[2]], (*(e[1][0] for e in outside), call[2], *(e[1][0] for e in inside)), False
    own = by_definition([t for t, _ in samples], [c[:2] for c in calls], x)
    frames = (
        []
        if own is None
        else [(MAIN, "python"), (samples[own][1], "input_wait" if samples[own][1] == LOADER else "python")]
    )
    system = [e[1] for e in held if e[0] is EventKind.OS_CALL and frames]
    stack = [*(e[1] for e in held if e[1] not in system), *frames, *system]
    outer = [cause for _, cause in stack if cause == "input_wait"]
    cause = outer[0] if outer else stack[-1][1] if stack else "outside_events"
    return cause, tuple(TEXTS.get(name, name) for name, _ in stack), own is not None


def case_of(events, sequence, taken):
    """The capture, and what the definition needs of it; None where it does not tell which of two comes first."""
    capture, calls, kernels, at = Capture(), [], [], 0
    for key, (pause, length, name, later, runs) in enumerate(sequence, 1):
        start, at = at + pause, at + pause + length
        calls.append((start, at, name))
        capture.launch(start, at, key, name)
        if name == "cudaLaunchKernel":
            capture.kernel(start + later, start + later + runs, key)
            kernels.append((start + later, start + later + runs, start))
    for kind, (name, _), start, length in events:
        capture.event(kind, name, start, start + length)
    samples, at = [], 0
    for distance, frame in taken:
        at += 2 * distance
        samples.append((at, frame))
        capture.sample(at, MAIN, frame)
    # Of an event and a call that begin and end together either may be the outer one.
    told = not {(start, start + length) for _, _, start, length in events} & {call[:2] for call in calls}
    told = told and len(kernels) > 1 and not outlives([t for t, _ in samples], [c[:2] for c in calls])
    return (capture, events, calls, kernels, samples) if told else None


CASES = st.builds(case_of, st.lists(EVENTS, max_size=6), SEQUENCE, TAKEN).filter(bool)


@settings(max_examples=18, deadline=None)
@given(st.lists(CASES, min_size=3, max_size=5))
def test_every_instant_before_a_launch_against_the_definition(cases):
    """Several captures share a store: to make one takes longer than to ask it."""
    with tempfile.TemporaryDirectory() as folder:
        store = store_of(Path(folder) / "s.duckdb", *(capture for capture, *_ in cases), source="nsys")
        with traceanalyzer.open(store) as traces:
            found = rows(traces.sql(PATHS), "rows")
    for number, (_, *case) in enumerate(cases):
        check_instants([row for row in found if row["capture"] == number], *case)


def check_instants(found, events, calls, kernels, samples):
    got = {
        x: (row["cause"], tuple(row["stack"]), row["sampled"])
        for row in found
        for x in range(row["start_ns"], row["end_ns"])
    }
    busy = {x for start, end, _ in kernels for x in range(start, end)}
    assert got.keys() == set(range(min(busy), max(busy))) - busy
    for x, piece in got.items():
        next_start = min(start for start, *_ in kernels if start > x)
        if x < min(call for start, _, call in kernels if start == next_start):
            assert piece == instant(x, events, calls, samples), x


@pytest.mark.parametrize("workload", ["planted_sleep", "dataloader_workers2", "ddp2_slow1"])
def test_the_stacks_of_all_pieces_of_real_captures_are_found(workload):
    path = TRACES / workload / "nsys.sqlite.gz"
    if not path.exists():
        pytest.skip(MISSING)
    with opened(path) as traces:
        found = rows(traces.sql(PATHS), "rows")
        stored = rows(traces.sql("SELECT max(node_id) AS node FROM stored.stack_nodes"), "rows")[0]["node"]
        total = sum(row["idle_ns"] for row in rows(traces.gaps(), "devices"))
    assert sum(row["end_ns"] - row["start_ns"] for row in found) == total
    sampled = [row for row in found if row["sampled"]]
    assert sampled
    assert all(row["stack"] for row in found if row["node_id"] is not None)
    assert any(row["node_id"] > stored for row in sampled)
    python = {"python", "os_blocked", "input_wait", "profiler", "framework", "host_communication", "module_load"}
    assert {row["cause"] for row in sampled} <= python
