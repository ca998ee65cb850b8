"""Imbalance: who is late, how often, by how much and why, on small jobs worked out by hand, simulated and real ones."""

import json
import subprocess
import sys

import pytest

import traceanalyzer
from tests.support.real_traces import SHARED
from tests.support.store_builder import Capture, store_of
from traceanalyzer.cli.render.heat import heat_map
from traceanalyzer.passes.answer import Frame
from traceanalyzer.passes.imbalance import EXCESS
from traceanalyzer.schema.kinds import EventKind

MS = 1_000_000
OWN = SHARED / "traces"
GENERATOR = SHARED / "bench" / "make_cluster.py"
LOAD = "/home/u/train.py(7): load_more"


def job(late, *, compute=None, ranks=2, steps=8):
    """Captures of ranks whose steps take 10 ms of compute, then an all-reduce of 1 ms that all leave together.

    `late(rank, step)` ms of a rank's host go by in Python before its compute; `compute(rank, step)` ms are its compute.
    """
    captures = [Capture() for _ in range(ranks)]
    for capture in captures:
        capture.launch(0, 1000, 1).kernel(1000, MS, 1)
    at = [MS] * ranks
    for step in range(steps):
        number = 10 * (step + 1)
        arrive = []
        for rank, capture in enumerate(captures):
            begin = at[rank] + round(late(rank, step) * MS) + 10_000
            capture.event(EventKind.STEP_MARK, f"ProfilerStep#{step}", at[rank], at[rank] + 1)
            capture.event(EventKind.PYTHON_FRAME, LOAD, at[rank], begin - 10_000)
            capture.launch(begin - 8_000, begin - 6_000, number).launch(begin - 4_000, begin - 2_000, number + 1)
            done = begin + round((compute(rank, step) if compute else 10) * MS)
            capture.kernel(begin, done, number)
            arrive.append(done)
        end = max(arrive) + MS
        for rank, capture in enumerate(captures):
            capture.communication(arrive[rank], end, ranks=tuple(range(ranks)), correlation=number + 1)
            at[rank] = end
    for rank, capture in enumerate(captures):
        capture.event(EventKind.STEP_MARK, f"ProfilerStep#{steps}", at[rank], at[rank] + 1)
    return captures


@pytest.fixture
def imbalance_of(tmp_path):
    def ask(captures, **selection):
        with traceanalyzer.open(store_of(tmp_path / "s.duckdb", *captures)) as opened:
            return opened.imbalance(**selection)

    return ask


def only(frame):
    (row,) = frame.rows()
    return row


def test_a_rank_whose_host_is_late_in_every_step(imbalance_of):
    answer = imbalance_of(job(lambda rank, step: 3 if rank == 1 else 0, ranks=4))
    row = only(answer.stragglers)
    assert (row["rank"], row["kind"], row["excess_ns"], row["late_steps"]) == (1, "systematic", 3 * MS, 8)
    assert row["others_wait_ns"] == 3 * 3 * MS
    assert "load_more (train.py:7)" in row["reason"]
    assert row["stack"] == ["load_more (train.py:7)"]
    ranks = {r["rank"]: r for r in answer.ranks.rows()}
    # 10 us of launches, 10 ms of compute, 1 ms of transfer; 3 ms are idle on rank 1 and waited for on the others.
    assert (ranks[1]["idle_ns"], ranks[1]["wait_ns"]) == (3 * MS + 10_000, 0)
    assert (ranks[0]["idle_ns"], ranks[0]["wait_ns"], ranks[0]["transfer_ns"]) == (10_000, 3 * MS, MS)
    assert {r["useful_ns"] for r in ranks.values()} == {10 * MS}
    efficiency = only(answer.efficiency)
    assert (efficiency["step_ns"], efficiency["what_if_step_ns"]) == (14 * MS + 10_000, 11 * MS + 10_000)
    assert efficiency["load_balance"] == 1.0
    assert efficiency["communication_efficiency"] == pytest.approx(10 / 14.01)
    assert any("instead of 14.0 ms" in f.text for f in answer.findings)


def test_a_rank_whose_kernels_are_slower(imbalance_of):
    answer = imbalance_of(job(lambda *_: 0, compute=lambda rank, _: 12 if rank == 2 else 10, ranks=3))
    row = only(answer.stragglers)
    assert (row["rank"], row["kind"], row["excess_ns"]) == (2, "systematic", 2 * MS)
    assert "the same kernels take longer; most of all gemm, 1.20 times" in row["reason"]
    assert row["stack"] is None
    assert only(answer.efficiency)["load_balance"] == pytest.approx((10 + 10 + 12) / 3 / 12)


def test_kernels_are_those_of_the_steps_that_an_option_marks(imbalance_of):
    captures = job(lambda *_: 0, compute=lambda rank, _: 12 if rank == 1 else 10)
    for capture in captures:
        for event in capture.events:
            if event["kind"] == EventKind.STEP_MARK:
                event["kind"], event["name"] = EventKind.RANGE, "batch"
                event["end_ns"] = event["start_ns"] + 5 * MS
    row = only(imbalance_of(captures, step_range="batch").stragglers)
    assert (row["rank"], row["excess_ns"]) == (1, 2 * MS)
    assert "the same kernels take longer; most of all gemm, 1.20 times" in row["reason"]


@pytest.mark.parametrize(
    ("late", "kind", "period"),
    [({2, 5, 8, 11}, "periodic", 3), ({1, 2, 7}, "occasional", None), ({5}, "occasional", None)],
)
def test_a_rank_that_is_late_in_some_steps(imbalance_of, late, kind, period):
    answer = imbalance_of(job(lambda rank, step: 30 * (rank == 0 and step in late), ranks=3, steps=12))
    row = only(answer.stragglers)
    assert (row["rank"], row["kind"], row["period"]) == (0, kind, period)
    assert (row["excess_ns"], row["late_steps"], row["others_wait_ns"]) == (30 * MS, len(late), 60 * MS)
    saved = 30 * MS * len(late) / 12
    efficiency = only(answer.efficiency)
    assert efficiency["step_ns"] - efficiency["what_if_step_ns"] == pytest.approx(saved, abs=1)


def test_one_that_is_always_a_little_late_does_not_hide_who_is_late_in_some_steps(imbalance_of):
    """Four ranks take turns of 8 ms, and one of them takes 1.1 ms more in every step."""
    answer = imbalance_of(job(lambda rank, step: 8 * (step % 4 == rank) + 1.1 * (rank == 0), ranks=4, steps=6))
    kinds = {row["rank"]: row["kind"] for row in answer.stragglers.rows()}
    assert {rank for rank, kind in kinds.items() if kind == "occasional"} == {1, 2, 3}


@pytest.mark.parametrize("late", [{0, 1}, {0, 1, 2}])
def test_several_that_are_late_in_every_step_are_not_late_in_some(imbalance_of, late):
    """Which of them is the latest in a step is chance, and no pattern."""
    noise = [[0.01 * ((7 * rank + 3 * step) % 5) for step in range(12)] for rank in range(4)]
    answer = imbalance_of(job(lambda rank, step: 40 * (rank in late) + noise[rank][step], ranks=4, steps=12))
    assert all(row["kind"] == "systematic" for row in answer.stragglers.rows())


def test_small_differences_are_no_lateness(imbalance_of):
    answer = imbalance_of(job(lambda rank, step: 0.05 * ((rank + step) % 3), ranks=3))
    assert not len(answer.stragglers)
    assert [f.code for f in answer.findings] == ["balanced"]


def test_two_late_ranks_of_different_groups_are_both_named(imbalance_of):
    captures = job(lambda rank, _: {1: 4, 2: 3}.get(rank, 0), ranks=4)
    for rank, capture in enumerate(captures):
        for row in capture.collectives:  # neighbours are groups, and end together with the others
            row["group_name"], row["group_ranks"] = str(rank // 2), str([0, 1] if rank < 2 else [2, 3])
            row["group_size"] = 2
    # Of each pair one is late; the pairs share no collective, so each is compared within itself.
    answer = imbalance_of(captures)
    assert [(r["rank"], r["excess_ns"]) for r in answer.stragglers.rows()] == [(1, 4 * MS), (2, 3 * MS)]


def test_excess_is_told_for_each_step_and_drawn(imbalance_of):
    answer = imbalance_of(job(lambda rank, step: 6 * (rank == 1 and step == 3), ranks=2))
    excess = {(r["rank"], r["step"]): r["excess_ns"] for r in answer.excess.rows()}
    assert (excess[1, 3], excess[0, 3], excess[1, 2]) == (6 * MS, -6 * MS, 0)
    drawn = heat_map(answer.excess, "excess_ns", 80).splitlines()
    assert drawn[1:] == ["rank 0 |        |", "rank 1 |   █    |"]


def test_a_heat_map_of_many_steps_fits_and_keeps_its_peaks():
    late = {(1, 777): 5 * MS}
    rows = [("run", rank, step, late.get((rank, step), 0), 0) for rank in range(2) for step in range(1000)]
    lines = heat_map(Frame.of_rows(EXCESS, rows), "excess_ns", 60).splitlines()
    assert max(map(len, lines[1:])) <= 60
    assert lines[2].count("█") == 1


def test_without_steps_nobody_is_called_late(imbalance_of):
    captures = job(lambda rank, _: 3 * rank)
    for capture in captures:
        capture.events = [event for event in capture.events if event["kind"] != EventKind.STEP_MARK]
    answer = imbalance_of(captures)
    assert not len(answer.stragglers)
    assert any("no steps in common" in warning for warning in answer.warnings)
    assert {row["steps"] for row in answer.ranks.rows()} == {0}


def test_one_rank_has_no_others(imbalance_of):
    answer = imbalance_of(job(lambda *_: 0, ranks=1))
    assert any("only one rank" in warning for warning in answer.warnings)
    assert only(answer.ranks)["excess_ns"] is None


def test_runs_are_told_apart(tmp_path):
    """A rank is a rank of its run: what is said of one does not depend on the other."""
    path = store_of(tmp_path / "s.duckdb", *job(lambda rank, _: 3 * rank), run="two")
    store_of(path, *job(lambda rank, _: 2 * (rank == 0), ranks=3), run="three")
    with traceanalyzer.open(path) as opened:
        every = {run: list(opened.imbalance(run=run).stragglers.rows()) for run in ("two", "three")}
        assert list(opened.imbalance(run="all").stragglers.rows()) == [*every["two"], *every["three"]]
        waits = {
            (row["run"], row["rank"]): row["ns"]
            for row in opened.ledger(run="all").totals.rows()
            if row["category"] == "communication_wait"
        }
        assert {row["run"] for row in opened.collectives(run="all").collectives.rows()} == {"two", "three"}
    assert [(row["run"], row["rank"]) for rows in every.values() for row in rows] == [("two", 1), ("three", 0)]
    assert waits == {("two", 0): 8 * 3 * MS, ("three", 1): 8 * 2 * MS, ("three", 2): 8 * 2 * MS}


def test_ranks_that_share_no_collective_are_not_compared(imbalance_of):
    captures = job(lambda rank, _: 5 * rank)
    for rank, capture in enumerate(captures):
        for row in capture.collectives:
            row["kind"], row["peer"] = ("send", 1) if rank == 0 else ("recv", 0)
    answer = imbalance_of(captures)
    assert [f.code for f in answer.findings] == ["not_compared", "parallel_efficiency"]
    assert not len(answer.stragglers)


def test_one_step_is_too_few(imbalance_of):
    answer = imbalance_of(job(lambda rank, _: 5 * rank, steps=1))
    assert answer.findings[0].code == "not_compared"


def test_ranks_whose_collectives_tell_no_kind_are_compared_all_the_same(imbalance_of):
    captures = job(lambda rank, _: 3 * rank)
    for capture in captures:
        for row in capture.collectives:
            row["kind"] = "something_new"
    answer = imbalance_of(captures)
    assert [(row["rank"], row["excess_ns"]) for row in answer.stragglers.rows()] == [(1, 3 * MS)]
    assert only(answer.efficiency)["replay_error"] is None


def test_files_without_any_kernel_are_answered(imbalance_of):
    captures = [Capture().event(EventKind.OPERATOR, "aten::mul", 0, 10) for _ in range(2)]
    answer = imbalance_of(captures)
    assert not len(answer.ranks)
    assert answer.warnings


def own(workload, stacks=False):
    files = sorted((OWN / workload).glob("rank?.stack.json.gz" if stacks else "rank?.json.gz"))
    if not files:
        pytest.skip("the captures are not here")
    with traceanalyzer.TraceSet.of_files(files) as opened:
        return opened.imbalance()


def test_the_planted_slow_rank_and_its_function():
    row = only(own("ddp2_slow1", stacks=True).stragglers)
    assert (row["rank"], row["kind"]) == (1, "systematic")
    assert row["excess_ns"] == pytest.approx(8 * MS, rel=0.15)
    assert any(frame.startswith("load_extra_batch (") for frame in row["stack"])


def test_the_planted_heavier_rank_has_more_compute():
    answer = own("ddp2_heavy1")
    row = only(answer.stragglers)
    assert (row["rank"], row["kind"]) == (1, "systematic")
    assert row["reason"].startswith("compute takes")
    assert only(answer.efficiency)["load_balance"] < 0.95


def test_the_planted_pause_is_periodic():
    row = only(own("ddp2_occasional").stragglers)
    assert (row["rank"], row["kind"], row["period"]) == (0, "periodic", 4)
    assert row["excess_ns"] == pytest.approx(40 * MS, rel=0.05)
    row = only(own("ddp2_occasional", stacks=True).stragglers)
    assert "write_checkpoint" in row["reason"]


@pytest.mark.parametrize("workload", ["ddp2_healthy", "fsdp2", "a2a2"])
def test_nobody_is_late_in_a_balanced_job(workload):
    assert not len(own(workload).stragglers)


@pytest.mark.parametrize(
    ("shape", "late", "kind", "seed"),
    [
        ("--world 2 --tp 1", "1:6:host", "systematic", 1),
        ("--world 2 --tp 1", "1:6:host", "systematic", 2),
        ("--world 6 --tp 3", "4:5:gpu", "systematic", 1),
        ("--world 6 --tp 3", "4:5:gpu", "systematic", 2),
        ("--world 16 --tp 4", "9:7:host", "systematic", 1),
        ("--world 8 --tp 2 --pp 2", "3:9:gpu", "systematic", 2),
        ("--world 4 --tp 2", "2:25:periodic:4", "periodic", 1),
        ("--world 4 --tp 2", "2:25:periodic:4", "periodic", 2),
    ],
)
def test_late_ranks_of_simulated_clusters(tmp_path, shape, late, kind, seed):
    if not GENERATOR.exists():
        pytest.skip("the generator is not here")
    steps = 14 if kind == "periodic" else 6
    options = f"{shape} --steps {steps} --layers 2 --skew-us 400000 --drift-ppm 3 --straggler {late} --seed {seed}"
    subprocess.run([sys.executable, GENERATOR, tmp_path / "job", *options.split()], check=True, capture_output=True)
    truth = json.loads((tmp_path / "job" / "truth.json").read_text())
    with traceanalyzer.TraceSet.of_files(sorted((tmp_path / "job").glob("rank*.json.gz"))) as opened:
        answer = opened.imbalance()
    row = only(answer.stragglers)
    planted = truth["stragglers"][0]
    assert (row["rank"], row["kind"]) == (planted["rank"], kind)
    assert row["excess_ns"] == pytest.approx(planted["ms"] * MS, rel=0.1)


@pytest.mark.parametrize(
    ("shape", "late"),
    [
        ("--world 8 --tp 2 --layers 4", "5:8:host"),
        ("--world 8 --tp 4 --layers 4", "3:8:gpu"),
        ("--world 16 --tp 8 --layers 3", "11:6:host"),
    ],
)
def test_the_replay_says_what_the_job_takes_without_the_late_rank(tmp_path, shape, late):
    """Against the same job, simulated without it: also where the others hide their waiting behind compute."""
    if not GENERATOR.exists():
        pytest.skip("the generator is not here")
    steps = {}
    for name, more in (("late", ["--straggler", late]), ("even", [])):
        options = [*shape.split(), "--steps", "6", "--seed", "3", "--skew-us", "3000", *more]
        subprocess.run([sys.executable, GENERATOR, tmp_path / name, *options], check=True, capture_output=True)
        with traceanalyzer.TraceSet.of_files(sorted((tmp_path / name).glob("rank*.json.gz"))) as opened:
            steps[name] = only(opened.imbalance().efficiency)
    assert steps["late"]["replay_error"] < 0.001
    assert steps["late"]["step_ns"] > 1.05 * steps["even"]["step_ns"]
    assert steps["late"]["what_if_step_ns"] == pytest.approx(steps["even"]["step_ns"], rel=0.005)


@pytest.mark.parametrize("workload", ["ddp2_slow1", "ddp2_heavy1", "ddp2_healthy", "fsdp2", "a2a2", "ddp2_occasional"])
def test_real_jobs_are_replayed_to_two_percent(workload):
    assert only(own(workload).efficiency)["replay_error"] < 0.02


def test_selected_ranks_are_listed_but_compared_with_all(imbalance_of):
    answer = imbalance_of(job(lambda rank, _: 3 * (rank == 1), ranks=3), rank="0,1")
    # The others of rank 0 are one that is 3 ms late and one that is not: their median is 1.5 ms later.
    assert [(row["rank"], row["excess_ns"]) for row in answer.ranks.rows()] == [(0, -1.5 * MS), (1, 3 * MS)]
    assert only(answer.stragglers)["others_wait_ns"] == 2 * 3 * MS
