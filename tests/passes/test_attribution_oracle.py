"""The attribution against the definition applied instant by instant, on random small captures."""

import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

import traceanalyzer
from tests.support.store_builder import Capture, store_of
from traceanalyzer.passes.idle import sweep
from traceanalyzer.schema.kinds import EventKind

LATENCY = 5

NAMES = {
    EventKind.API_CALL: [
        ("cudaDeviceSynchronize", "sync"),
        ("cudaFree", "memory_management"),
        ("cudaGetDevice", "api_call"),
    ],
    EventKind.OPERATOR: [("aten::mm", "framework")],
    EventKind.RANGE: [("forward", "range"), ("enumerate(DataLoader)#x.__next__", "input_wait")],
    EventKind.PYTHON_FRAME: [("a.py(1): f", "python"), ("torch/_inductor/codecache.py(9): load", "module_load")],
    EventKind.OS_CALL: [("poll", "os_blocked")],
}
OUTER = {"input_wait", "module_load"}
FRAMES = {"a.py(1): f": "f (a.py:1)", "torch/_inductor/codecache.py(9): load": "load (codecache.py:9)"}

EVENT = st.sampled_from(sorted(NAMES)).flatmap(
    lambda kind: st.tuples(
        st.just(kind), st.sampled_from(NAMES[kind]), st.integers(0, 90), st.integers(0, 40), st.sampled_from((1, 2))
    )
)
OP = st.tuples(
    st.integers(0, 100), st.integers(0, 12), st.integers(0, 90), st.integers(0, 9), st.sampled_from((1, 2, None))
)


def thread_of(everything, thread):
    """Events of a thread in the order of their opening."""
    mine = [e for e in everything if e[5] == thread]
    return [mine[k] for k in sorted(range(len(mine)), key=lambda k: (mine[k][3], -mine[k][4], k))]


def open_at(everything, x, thread):
    """Events on the stack at an instant, outermost first, by the rule walked event by event."""
    stack = []
    for event in thread_of(everything, thread):
        if event[3] > x:
            break
        while stack and stack[-1][4] <= event[3]:
            stack.pop()
        if event[4] > event[3]:
            stack.append(event)
    while stack and stack[-1][4] <= x:
        stack.pop()
    return stack


def cause_of(stack):
    if not stack:
        return "outside_events"
    calls = [e[2] for e in stack if e[0] is EventKind.API_CALL]
    if calls:
        return calls[-1]
    outer = [e[2] for e in stack if e[2] in OUTER]
    return outer[0] if outer else stack[-1][2]


def by_definition(events, ops):
    """Idle ns by (cause, stack or None after the launch began), following the definition instant by instant."""
    everything = [(kind, name, cause, s, s + d, t) for kind, (name, cause), s, d, t in events]
    launches = {k: (s, s + d, t) for k, (_, _, s, d, t) in enumerate(ops) if t is not None}
    everything += [(EventKind.API_CALL, "cudaLaunchKernel", "launch_call", *launch) for launch in launches.values()]
    spans = [(s, s + d) for s, d, *_ in ops]
    first, last = min(s for s, _ in spans), max(e for _, e in spans)
    out = Counter()
    for x in range(first, last):
        if any(s <= x < e for s, e in spans):
            continue
        g0 = max((e for s, e in spans if s < e <= x), default=first)
        g1 = min((s for s, e in spans if x < s < e), default=last)
        known = [(launches[k], k) for k, (s, _) in enumerate(spans) if s == g1 and k in launches]
        if not known:
            out["no launch", None] += 1
            continue
        (l0, l1, thread), _ = min(known, key=lambda item: (item[0][0], item[1]))
        if x < l0:
            stack = [e for e in open_at(everything, x, thread) if e[4] > x]
            out[cause_of(stack), tuple(FRAMES.get(e[1], e[1]) for e in stack)] += 1
        elif x < l1:
            out["launch_call", None] += 1
        elif x < max(l1, g0) + LATENCY:
            out["launch_latency" if l1 > g0 else "device_gap", None] += 1
        else:
            out["device_wait", None] += 1
    return out


RANK = st.tuples(st.lists(EVENT, max_size=10), st.lists(OP, min_size=1, max_size=7))


def capture_of(events, ops):
    capture = Capture()
    for kind, (name, _), start, length, thread in events:
        capture.event(kind, name, start, start + length, None, thread)
    for k, (start, length, launch, call, thread) in enumerate(ops):
        capture.kernel(start, start + length, k + 1 if thread else None)
        if thread:
            capture.launch(launch, launch + call, k + 1, thread=thread)
    return capture


@settings(max_examples=15, deadline=None)
@given(st.lists(RANK, min_size=3, max_size=5))
def test_every_instant_has_the_cause_of_the_definition(ranks):
    """Several captures share a store: to make one takes longer than to ask it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.duckdb"
        kept, sweep.LAUNCH_LATENCY_NS = sweep.LAUNCH_LATENCY_NS, LATENCY
        try:
            with traceanalyzer.open(store_of(path, *(capture_of(*rank) for rank in ranks))) as traces:
                answer = traces.gaps()
        finally:
            sweep.LAUNCH_LATENCY_NS = kept
    for number, rank in enumerate(ranks):
        check_stacks([row for row in answer.stacks.rows() if row["rank"] == number], by_definition(*rank))


def check_stacks(stacks, want):
    got = Counter()
    for row in stacks:
        before = row["cause"] not in ("launch_latency", "device_gap", "device_wait", "unattributed")
        stack = tuple(row["stack"])
        if before and stack and stack[-1] == "cudaLaunchKernel":
            before = False
        got[row["cause"], stack if before else None] += row["idle_ns"]
    # Calls of other launches and the own launch are told apart by neither; without a launch, only the sum is defined.
    loose = Counter()
    for (cause, stack), ns in want.items():
        loose[cause, None if stack and stack[-1] == "cudaLaunchKernel" else stack] += ns
    for rows in (loose, got):
        rows["rest", None] = sum(rows.pop((c, None), 0) for c in ("no launch", "unattributed"))
    in_flight = got["device_gap", None] + got["device_wait", None] + got["rest", None]
    assert in_flight == loose["device_gap", None] + loose["device_wait", None] + loose["rest", None]
    for rows in (loose, got):
        for cause in ("device_gap", "device_wait", "rest"):
            rows.pop((cause, None), None)
    assert +got == +loose
