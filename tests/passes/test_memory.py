"""Memory: levels, what holds it and what grows, of small captures worked out by hand, and of those that leak."""

import gzip
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import traceanalyzer
from tests.support.real_traces import MISSING, PUBLIC, TRACES, TRUTH, opened, rows
from tests.support.store_builder import Capture, store_of
from traceanalyzer.passes.allocations.curve import NEVER, MemoryEvents, allocated, freed_at, reserved
from traceanalyzer.passes.memory import memory_growth
from traceanalyzer.passes.scope import resolve
from traceanalyzer.passes.selection import make_selection
from traceanalyzer.schema.kinds import EventKind
from traceanalyzer.store.database import open_to_read

OPERATOR, FRAME, MARK = EventKind.OPERATOR, EventKind.PYTHON_FRAME, EventKind.STEP_MARK
MIB = 1 << 20


def asked(tmp_path, *captures, source="torch", **selection):
    with traceanalyzer.open(store_of(tmp_path / "s.duckdb", *captures, source=source)) as traces:
        return traces.memory(**selection)


def column(answer, table, *names):
    return [tuple(row[name] for name in names) for row in getattr(answer, table).rows()]


def small():
    """100 B are there before; a gets 40, b gets 60 (the peak), a is freed, 30 of before are freed, c gets 10."""
    capture = Capture().event(FRAME, "/x/train.py(7): step", 0, 1000)
    capture.event(OPERATOR, "aten::a", 90, 150).event(OPERATOR, "aten::b", 190, 250)
    capture.memory(100, 40, 0xA, 140, 512).memory(200, 60, 0xB, 200, 512).memory(300, -40, 0xA, 160, 512)
    return capture.memory(400, -30, 0xC, 130, 256).memory(500, 10, 0xA, 140, 256)


def test_curve_and_peak(tmp_path):
    answer = asked(tmp_path, small())
    levels = [(100, 100, 512), (100, 140, 512), (200, 200, 512), (300, 160, 512), (400, 130, 256), (500, 140, 256)]
    assert column(answer, "curve", "t_ns", "allocated_bytes", "reserved_bytes") == levels
    assert column(answer, "peak", "part", "op", "bytes", "n_allocations") == [
        ("peak", "aten::b", 200, None),
        ("before_recording", None, 100, None),
        ("allocations", "aten::b", 60, 1),
        ("allocations", "aten::a", 40, 1),
    ]
    assert list(answer.peak.rows())[2]["stack"] == ["step (train.py:7)", "aten::b"]
    assert list(answer.peak.rows())[2]["blame"] == "step (train.py:7)"
    (whole,) = answer.memory.rows()
    assert (whole["peak_allocated_bytes"], whole["peak_reserved_bytes"], whole["peak_t_ns"]) == (200, 512, 200)
    assert (whole["fragmentation_bytes"], whole["n_allocations"]) == (312, 3)


def test_the_base_of_reserved_memory_is_what_is_told_first(tmp_path):
    answer = asked(tmp_path, Capture().memory(100, 10, 1, 10, 64).memory(200, 10, 2, 20, 128))
    assert column(answer, "curve", "reserved_bytes") == [(64,), (64,), (128,)]


def test_without_totals_levels_are_the_least_that_is_possible(tmp_path):
    answer = asked(tmp_path, Capture().memory(1, 50, None).memory(2, -70, None).memory(3, 30, None))
    assert column(answer, "curve", "allocated_bytes", "reserved_bytes") == [
        *((20, None), (70, None), (0, None), (30, None)),
    ]
    assert column(answer, "peak", "part", "bytes") == [("peak", 70), ("unknown", 70)]
    assert any("only differences" in text for text in answer.warnings)
    assert any("lacks addresses" in text for text in answer.warnings)


def test_a_window_selects_instants(tmp_path):
    capture = small().kernel(250, 260)
    answer = asked(tmp_path, capture, window="0:0.0000002")
    assert column(answer, "curve", "t_ns", "allocated_bytes") == [(300, 200), (300, 160), (400, 130)]
    assert column(answer, "peak", "part", "bytes")[0] == ("peak", 200)
    assert sum(size for part, size in column(answer, "peak", "part", "bytes") if part != "peak") == 200


def steps(*kept, first=0, card=1000 * MIB, length=1000):
    """Steps of 1000 ns, each with a kernel, in which a frame keeps some memory and frees as much again."""
    capture = Capture().gpu("card", memory_bytes=card)
    total = first
    for k, size in enumerate(kept):
        at = k * length
        capture.event(MARK, f"ProfilerStep#{k}", at, at + length)
        capture.event(FRAME, "/x/train.py(7): step", at + 1, at + length - 1)
        capture.event(FRAME, "/x/train.py(3): keep", at + 300, at + 310)
        capture.event(OPERATOR, "aten::mm", at + 100, at + 200)
        capture.launch(at + 110, at + 120, k + 1).kernel(at + 130, at + 900, k + 1)
        capture.memory(at + 150, 5 * MIB, 1, total + 5 * MIB, 2 * total + 5 * MIB)
        if size:
            capture.memory(at + 160, size, 100 + k, total + 5 * MIB + size, 2 * total + 5 * MIB)
        total += max(size, 0)
        capture.memory(at + 800, -5 * MIB, 1, total, 2 * total)
    return capture


def test_growth_that_is_a_leak(tmp_path):
    answer = asked(tmp_path, steps(*[4 * MIB] * 6))
    assert column(answer, "growth", "step", "bytes", "change_bytes") == [
        (k, 4 * MIB * (k + 1), 4 * MIB) for k in range(6)
    ]
    (left,) = answer.growing.rows()
    assert (left["bytes_per_step"], left["bytes"], left["n_steps"], left["n_allocations"]) == (4 * MIB, 24 * MIB, 6, 6)
    assert (left["op"], left["blame"], left["next_call"]) == ("aten::mm", "step (train.py:7)", "keep (train.py:3)")
    (found,) = answer.findings
    assert (found.code, found.cost_ns) == ("memory_growth", None)
    # 976 MiB are left at 4 MiB a step.
    assert found.text == (
        "rank 0, device 0: memory in use grows by 4.000 MiB a step, in 5 of 5 steps; most of it is allocated by"
        " aten::mm in step (train.py:7), 4.000 MiB a step, before it calls keep (train.py:3), which may keep it; the"
        " 1,000.000 MiB of the device are full after 244 more steps (244.000 us)"
    )


@pytest.mark.parametrize(
    "kept",
    [
        [4 * MIB, 0, 0, 0, 0, 0],  # what the first step leaves for good
        [4 * MIB, 4 * MIB, 0, 4 * MIB, 4 * MIB, 4 * MIB],  # not in every step
        [4 * MIB, 4 * MIB, 4 * MIB],  # too few steps to tell
        [64] * 6,  # a list of losses
    ],
)
def test_growth_that_is_none(tmp_path, kept):
    assert asked(tmp_path, steps(*kept)).findings == []


def test_nearly_full_is_no_leak(tmp_path):
    (found,) = asked(tmp_path, steps(*[0] * 6, first=480 * MIB)).findings
    assert found.code == "memory_nearly_full"
    assert "96.5 % of its 1,000.000 MiB are taken at most; it does not grow from step to step: no leak" in found.text


def test_warmup_does_not_count(tmp_path):
    """With two steps of warm-up there are four left, in which memory grows."""
    answer = asked(tmp_path, steps(90 * MIB, 0, *[4 * MIB] * 4), warmup="2")
    assert [row["warmup"] for row in answer.growth.rows()] == [True, True, False, False, False, False]
    assert [(row["growth_bytes_per_step"], row["n_steps"]) for row in answer.memory.rows()] == [(4 * MIB, 4)]
    assert [f.code for f in answer.findings] == ["memory_growth"]


def test_steps_select_instants_and_growth(tmp_path):
    answer = asked(tmp_path, steps(*[4 * MIB] * 6), steps="2-4")
    assert column(answer, "growth", "step", "bytes") == [(2, 12 * MIB), (3, 16 * MIB), (4, 20 * MIB)]
    assert [row["peak_allocated_bytes"] for row in answer.memory.rows()] == [25 * MIB]


def test_what_the_driver_gives_comes_in_pieces(tmp_path):
    """Every other step takes a piece; the call that took it is found by its time."""
    capture = Capture().gpu("card", memory_bytes=1000 * MIB)
    for k in range(8):
        capture.event(MARK, f"step {k}", 1000 * k, 1000 * k + 1000)
        capture.launch(1000 * k + 10, 1000 * k + 20, k + 1).kernel(1000 * k + 30, 1000 * k + 900, k + 1)
        if k % 2:
            capture.event(EventKind.RANGE, "mine", 1000 * k + 90, 1000 * k + 200)
            capture.event(EventKind.API_CALL, "cudaMalloc_v3020", 1000 * k + 100, 1000 * k + 110)
            capture.memory(1000 * k + 105, 2 * MIB, k, thread=None)
    answer = asked(tmp_path, capture, source="nsys")
    assert column(answer, "curve", "allocated_bytes", "reserved_bytes")[-1] == (None, 8 * MIB)
    assert [(r["op"], r["stack"], r["n_steps"]) for r in answer.growing.rows()] == [
        ("cudaMalloc", ["mine", "cudaMalloc"], 4)
    ]
    assert [f.code for f in answer.findings] == ["memory_growth"]
    assert any("from the driver" in note for note in answer.notes)


def test_the_curve_is_thinned_but_keeps_its_peaks(tmp_path):
    capture = Capture()
    for t in range(200):
        size = 1000 if t == 77 else 1
        capture.memory(t, size, t, 5000 if t == 77 else 100 + t, 9000 if t == 120 else 600)
    whole, thin = asked(tmp_path, capture), None
    with traceanalyzer.open(tmp_path / "s.duckdb") as traces:
        thin = traces.memory(top=11)
    points = column(whole, "curve", "t_ns", "allocated_bytes", "reserved_bytes")
    kept = column(thin, "curve", "t_ns", "allocated_bytes", "reserved_bytes")
    assert len(points) == 201 and 5 <= len(kept) <= 10
    assert kept == sorted(kept) and set(kept) <= set(points)
    assert {points[0], points[-1], (77, 5000, 600), (120, 220, 9000)} <= set(kept)


def test_nothing_recorded_is_said(tmp_path):
    answer = asked(tmp_path, Capture().kernel(1, 2).memory(1, 5, 1, device=None))
    assert not len(answer.curve) and not answer.findings
    assert "profile_memory=True" in answer.warnings[-1]


def test_impossible_sizes_are_left_out_and_said(tmp_path):
    capture = Capture().memory(1, 50, 1).memory(2, -(2**63), 2).memory(3, 30, 3, 2**62)
    answer = asked(tmp_path, capture)
    assert column(answer, "curve", "allocated_bytes") == [(0,), (50,)]
    assert "2 records of memory with an impossible size left out" in answer.warnings[0]


EVENTS = st.lists(
    st.tuples(st.integers(-9, 9).filter(bool), st.one_of(st.none(), st.integers(0, 3)), st.integers(0, 1)),
    min_size=1,
    max_size=25,
)


def events_of(drawn, totals):
    n = len(drawn)
    none, address = np.zeros(n, np.int64), np.array([a or 0 for _, a, _ in drawn])
    told, known = np.array([t or 0 for t in totals]), np.array([t is not None for t in totals])
    size, process = np.array([b for b, _, _ in drawn]), np.array([p for _, _, p in drawn])
    given_address = np.array([a is not None for _, a, _ in drawn])
    return MemoryEvents(np.arange(n), process, none, size, address, given_address, told, known, told, known)


@given(EVENTS)
def test_an_allocation_ends_at_the_next_event_at_its_address(drawn):
    """As a dictionary of what is open at each address of a process says."""
    expected, open_ = [], {}
    for k, (size, address, process) in enumerate(drawn):
        expected.append(NEVER if size > 0 else -1)
        if address is not None:
            if (before := open_.pop((process, address), None)) is not None:
                expected[before] = k
            if size > 0:
                open_[process, address] = k
    assert freed_at(events_of(drawn, [None] * len(drawn))).tolist() == expected


@given(EVENTS, st.data())
def test_levels_are_the_sum_over_processes(drawn, data):
    """Where each process tells some of its true totals, all levels from the first of them on are the true ones."""
    bases = {p: 1000 * (p + 1) for _, _, p in drawn}
    now, totals, expected = dict(bases), [], []
    for size, _, process in drawn:
        now[process] += size
        first = process not in {p for _, _, p in drawn[: len(totals)]}
        totals.append(now[process] if first or data.draw(st.booleans()) else None)
        expected.append(sum(now.values()))
    found = allocated(events_of(drawn, totals))
    assert (found.base, found.after.tolist(), found.exact) == (sum(bases.values()), expected, True)


@given(EVENTS)
def test_without_totals_no_level_is_negative(drawn):
    events = events_of([(size, address, 0) for size, address, _ in drawn], [None] * len(drawn))
    found = allocated(events)
    least = min(found.base, *found.after.tolist())
    assert not found.exact
    assert least == 0 if found.base else least >= 0
    assert np.diff(found.after, prepend=found.base).tolist() == [size for size, _, _ in drawn]
    assert reserved(events) is None


LEAK = TRACES / "mem_leak"


@pytest.mark.skipif(not LEAK.exists(), reason=MISSING)
@pytest.mark.parametrize("name", ["torch.json.gz", "torch.stack.json.gz", "nsys.sqlite.gz"])
def test_the_planted_leak(name):
    planted = TRUTH["workloads"]["mem_leak"]["planted"]
    with opened(LEAK / name) as traces:
        answer = traces.memory()
        scope = resolve(open_to_read(traces.path), make_selection())
        (growth,) = memory_growth(scope)
        scope.connection.close()
    (found,) = answer.findings
    assert found.code == "memory_growth" and found.text == growth.text and growth.is_leak
    (whole,) = answer.memory.rows()
    if name.startswith("nsys"):  # the allocator asks for larger pieces, every other step
        changes = [row["change_bytes"] for row in answer.growth.rows()]
        assert changes == [132 * MIB, 0] * 4
        return
    assert growth.bytes_per_step == planted["leak_bytes_per_step"] == whole["growth_bytes_per_step"]
    assert {row["change_bytes"] for row in answer.growth.rows()} == {planted["leak_bytes_per_step"]}
    (left,) = answer.growing.rows()
    assert left["bytes_per_step"] == planted["leak_bytes_per_step"] and left["op"] == "aten::addmm"
    assert "logging" in left["stack"]
    if "stack" in name:
        assert left["next_call"].startswith(planted["function"])
        assert growth.next_call in found.text


RECORDED = ["tl_h100_qwen", "tl_h100_modules_small", "tutorial_window_a", "kineto_2021_resnet50_stack_mem"]


@pytest.mark.skipif(not PUBLIC.exists(), reason=MISSING)
@pytest.mark.parametrize("name", RECORDED)
def test_public_traces_peak_where_their_totals_say(name):
    path = PUBLIC / "torch" / f"{name}.json.gz"
    document = json.loads(gzip.decompress(path.read_bytes()))
    found = [
        e["args"] for e in document["traceEvents"] if e.get("name") == "[memory]" and e["args"]["Device Type"] == 1
    ]
    with opened(path) as traces:
        answer = traces.memory()
    (whole,) = answer.memory.rows()
    peak, *parts = rows(answer, "peak")
    assert sum(part["bytes"] for part in parts) == peak["bytes"] == whole["peak_allocated_bytes"]
    assert len(answer.curve) == len(found) + 1
    if "Total Allocated" in found[0]:
        assert whole["peak_allocated_bytes"] == max(args["Total Allocated"] for args in found)
        assert whole["peak_reserved_bytes"] == max(args["Total Reserved"] for args in found)
    else:
        assert any("only differences" in text for text in answer.warnings)


@pytest.mark.skipif(not TRACES.exists(), reason=MISSING)
def test_allocations_that_come_and_go_are_no_leak():
    with opened(TRACES / "alloc_churn" / "torch.stack.json.gz") as traces:
        answer = traces.memory()
    assert [f for f in answer.findings if f.code == "memory_growth"] == []
