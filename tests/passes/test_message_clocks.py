"""Clocks that only messages tell: bounds worked out by hand, random pipelines against a plain oracle."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import traceanalyzer
from tests.support.store_builder import Capture, store_of
from traceanalyzer.passes.communication.clocks import Clock
from traceanalyzer.passes.communication.message_clocks import _Bounds, _islands
from traceanalyzer.schema.kinds import EventKind
from traceanalyzer.store.database import open_to_write

US, MS = 1_000, 1_000_000
UNIX = 1_790_000_000 * 10**9
DRIFTED = 450
"""What clocks may drift apart in the 0.45 ms from the middle of two messages that are 0.9 ms apart."""
DRIFTED_IN_ALL = 7 * 20 * US
"""... in half of 40 ms, along a path of up to seven messages."""


def asked(folder, captures, question="collectives", **selection):
    with traceanalyzer.open(store_of(folder / "s.duckdb", *captures)) as opened:
        return getattr(opened, question)(**selection)


class Job:
    """Ranks whose clocks show `shifts` more than the true time, on which their messages are told."""

    def __init__(self, shifts):
        self.shifts, self.captures = shifts, [Capture() for _ in shifts]
        self.most = {}

    def message(self, source, target, *, sent, done, received, ready):
        """A send from `sent` to `done`, and its receive from `ready` to `received`."""
        ranks = tuple(sorted((source, target)))
        for rank, peer, kind, start, end in (
            (source, target, "send", sent, done),
            (target, source, "recv", ready, received),
        ):
            shift = self.shifts[rank]
            self.captures[rank].communication(
                start + shift, end + shift, kind, group=str(ranks), ranks=ranks, peer=peer, stream=20 + peer
            )
        takes = received + self.shifts[target] - sent - self.shifts[source]
        self.most[source, target] = min(takes, self.most.get((source, target), takes))


def with_time_of_day(store, offsets):
    """Says of each capture what to add to its clock for Unix time."""
    connection = open_to_write(store)
    for capture, offset in enumerate(offsets):
        connection.execute("UPDATE stored.captures SET utc_offset_ns = ? WHERE capture = ?", [offset, capture])
    connection.close()
    with traceanalyzer.open(store) as opened:
        return opened.collectives()


def placed(answer):
    return {row["rank"]: row for row in answer.clocks.rows()}


def both_ways(job, a, b, at, there, back):
    """A message each way, received `there` and `back` after it was sent, of receivers that waited."""
    job.message(a, b, sent=at, done=at + 10, ready=at - 5 * US, received=at + there)
    job.message(b, a, sent=at + MS, done=at + MS + 10, ready=at + MS - 5 * US, received=at + MS + back)


def test_two_clocks_lie_between_what_messages_both_ways_allow(tmp_path):
    job = Job([0, 40 * MS])
    both_ways(job, 0, 1, 10 * MS, 100 * US, 300 * US)
    clocks = placed(asked(tmp_path, job.captures))
    # At most 40.1 ms more, at least 39.7 ms: 39.9 ms, and off by 0.2 ms at most.
    assert (clocks[1]["offset_ns"], clocks[1]["message_error_ns"]) == (39_900 * US, 200 * US + DRIFTED)
    assert (clocks[0]["offset_ns"], clocks[0]["message_error_ns"]) == (0, 200 * US + DRIFTED)
    assert [row["component"] for row in clocks.values()] == [0, 0]
    assert {row["placed_by"] for row in clocks.values()} == {"bounds by messages"}


def test_waits_that_bounds_cannot_tell_are_unresolved(tmp_path):
    job = Job([0, 40 * MS])
    both_ways(job, 0, 1, 10 * MS, 100 * US, 100 * US)
    job.message(0, 1, sent=20 * MS, done=20 * MS + 50 * US, ready=20 * MS - 40 * US, received=20 * MS + 110 * US)
    job.message(0, 1, sent=30 * MS, done=30 * MS + 50 * US, ready=30 * MS - 700 * US, received=30 * MS + 110 * US)
    answer = asked(tmp_path, job.captures)
    assert placed(answer)[1]["offset_ns"] == pytest.approx(40 * MS, abs=20 * US)
    waits = {
        row["ordinal"]: row["wait_ns"] for row in answer.collectives.rows() if (row["rank"], row["kind"]) == (1, "recv")
    }
    assert waits == {0: None, 1: None, 2: pytest.approx(700 * US, abs=20 * US)}


def test_bounds_add_up_along_a_pipeline_but_not_for_neighbours(tmp_path):
    shifts = [0, -3 * MS, 7 * MS, 100 * MS]
    job = Job(shifts)
    for k in range(3):
        both_ways(job, k, k + 1, 10 * MS * (k + 1), 100 * US, 100 * US)
    clocks = placed(asked(tmp_path, job.captures))
    # 21 ms of messages may have drifted apart by 10.5 us from their middle on.
    assert [clocks[rank]["offset_ns"] for rank in range(4)] == pytest.approx(shifts, abs=3 * US)
    errors = [clocks[rank]["message_error_ns"] for rank in range(4)]
    assert all(100 * US <= error <= 125 * US for error in errors)


def test_messages_one_way_bound_one_side_only(tmp_path):
    job = Job([0, 5 * MS])
    for k in range(5):
        job.message(0, 1, sent=k * MS, done=k * MS + 10, ready=k * MS, received=k * MS + 100 * US)
    answer = asked(tmp_path, job.captures)
    assert {row["component"] for row in answer.clocks.rows()} == {None}
    assert any("no matched collective tells the clock" in warning for warning in answer.warnings)


def test_messages_round_a_ring_bound_both_sides(tmp_path):
    shifts = [0, 5 * MS, -9 * MS]
    job = Job(shifts)
    for k, (a, b) in enumerate(((0, 1), (1, 2), (2, 0))):
        job.message(a, b, sent=k * MS, done=k * MS + 10, ready=k * MS - 100, received=k * MS + 90 * US)
    clocks = placed(asked(tmp_path, job.captures))
    # Each shows at most 90 us more than the one before it, and at most 180 us less, by the other way round: the middle
    # is 45 us less for rank 1 and 45 us more for rank 2, against rank 0. Those two are 90 us apart then, of -180 to 90.
    offsets = [clocks[rank]["offset_ns"] - shifts[rank] for rank in range(3)]
    errors = [clocks[rank]["message_error_ns"] for rank in range(3)]
    assert offsets == pytest.approx([0, -45 * US, 45 * US], abs=US)
    assert errors == pytest.approx([135 * US, 270 * US, 270 * US], abs=4 * US)


def test_messages_that_contradict_each_other_place_nobody(tmp_path):
    job = Job([0, 40 * MS])
    both_ways(job, 0, 1, 10 * MS, 100 * US, 100 * US)
    # The clock of the receiver has lost 3 ms meanwhile: it would have received before the sending began.
    job.message(0, 1, sent=900 * MS, done=900 * MS + 10, ready=890 * MS, received=897 * MS)
    answer = asked(tmp_path, job.captures)
    assert {row["component"] for row in answer.clocks.rows()} == {None}
    assert {row["resolved"] for row in answer.collectives.rows()} == {False}
    (told,) = [warning for warning in answer.warnings if "before its sending began" in warning]
    assert told.startswith("ranks 0, 1: ")


def test_stages_of_several_ranks_are_placed_as_they_are_aligned(tmp_path):
    """Two stages of two ranks each, which all-reduce among themselves; one rank of each exchanges messages."""
    shifts = [0, 2_000_000 * MS, 50 * MS, -7_000_000 * MS]
    job = Job(shifts)
    for c in range(6):
        for pair in ((0, 1), (2, 3)):
            for rank in pair:
                start = 100 * MS + c * MS + 50 * US * rank + shifts[rank]
                end = 100 * MS + c * MS + 400 * US + shifts[rank]
                job.captures[rank].communication(start, end, group=f"tensor {pair[0]}", ranks=pair)
    both_ways(job, 1, 3, 10 * MS, 100 * US, 100 * US)
    job.message(3, 1, sent=20 * MS, done=20 * MS + 10, ready=19 * MS, received=20 * MS + 100 * US)
    answer = asked(tmp_path, job.captures)
    clocks = placed(answer)
    assert [clocks[rank]["offset_ns"] for rank in range(4)] == pytest.approx(shifts, abs=10 * US)
    # However far apart the clocks of a stage are, a wait of 1 ms is more than messages leave open.
    (wait,) = {row["wait_ns"] for row in answer.collectives.rows() if row["kind"] == "recv" and row["wait_ns"]}
    assert wait == pytest.approx(MS, abs=10 * US)
    assert [clocks[rank]["component"] for rank in range(4)] == [0] * 4
    assert [clocks[rank]["placed_by"] for rank in range(4)] == ["ends of collectives"] * 2 + ["bounds by messages"] * 2
    # Waits within a stage are told as before, below what messages would tell.
    waits = {row["rank"]: row["wait_ns"] for row in answer.collectives.rows() if row["kind"] == "all_reduce"}
    assert waits == {0: 50 * US, 1: 0, 2: 50 * US, 3: 0}
    assert not [warning for warning in answer.warnings if "no collective connects" in warning]


def test_clocks_far_apart_are_placed_to_the_nanosecond(tmp_path):
    """One file counts from its own start, the other in Unix time."""
    job = Job([0, 1_790_000_000_123_456_789])
    both_ways(job, 0, 1, 10 * MS, 100 * US, 100 * US)
    assert placed(asked(tmp_path, job.captures))[1]["offset_ns"] == 1_790_000_000_123_456_789


@pytest.mark.parametrize("align", ["none", "utc"])
def test_asked_for_other_clocks_messages_do_not_matter(tmp_path, align):
    job = Job([0, 40 * MS])
    both_ways(job, 0, 1, 10 * MS, 100 * US, 100 * US)
    assert placed(asked(tmp_path, job.captures, align=align))[1]["message_error_ns"] is None


def tightest(most, world):
    """At most how much more each clock shows than each other: all paths, tried in a plain loop."""
    out = {(a, b): 0 if a == b else most.get((a, b), float("inf")) for a in range(world) for b in range(world)}
    for via, a, b in itertools.product(range(world), repeat=3):
        out[a, b] = min(out[a, b], out[a, via] + out[via, b])
    return out


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), world=st.integers(2, 7))
def test_true_clocks_lie_within_what_is_told_of_random_jobs(tmp_path_factory, seed, world):
    generator = random.Random(seed)
    shifts = [0, *(generator.randrange(-(10**12), 10**12) for _ in range(world - 1))]
    job = Job(shifts)
    ways = [pair for pair in itertools.permutations(range(world), 2) if generator.random() < 0.5]
    for k in range(40):
        if not ways:
            break
        source, target = generator.choice(ways)
        at = k * MS
        takes = generator.randrange(10 * US, 600 * US)
        ready = at + generator.randrange(-300, 300) * US
        received = max(at, ready) + takes
        job.message(source, target, sent=at, done=at + takes // 2, ready=ready, received=received)
    clocks = placed(asked(tmp_path_factory.mktemp("job"), job.captures))
    oracle = tightest(job.most, world)
    for a, b in itertools.combinations(clocks, 2):
        bounded = oracle[a, b] < float("inf") and oracle[b, a] < float("inf")
        together = clocks[a]["component"] is not None and clocks[a]["component"] == clocks[b]["component"]
        assert together == bounded
        if not bounded:
            continue
        apart = clocks[b]["offset_ns"] - clocks[a]["offset_ns"]
        assert -oracle[b, a] - DRIFTED_IN_ALL <= apart <= oracle[a, b] + DRIFTED_IN_ALL
        if (a, b) in job.most or (b, a) in job.most:
            error = min(clocks[a]["message_error_ns"], clocks[b]["message_error_ns"])
            assert abs(apart - (shifts[b] - shifts[a])) <= error
    first = {}
    for rank, row in clocks.items():
        if row["component"] is not None:
            first.setdefault(row["component"], rank)
            reference = first[row["component"]]
            middle = (oracle[reference, rank] - oracle[rank, reference]) // 2
            assert row["offset_ns"] == pytest.approx(middle, abs=DRIFTED_IN_ALL)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), drift_ppm=st.floats(-400, 400))
def test_errors_hold_for_clocks_that_drift(tmp_path_factory, seed, drift_ppm):
    """What is resolved is off by no more than is told, also at both ends of a second in which clocks drift apart."""
    generator = random.Random(seed)
    job = Job([0, 3 * MS])
    true = {}
    for k in range(60):
        at = k * 17 * MS
        job.shifts[1] = 3 * MS + round(at * drift_ppm / 1e6)
        target = (k + 1) % 2
        wait, takes = generator.choice([0, 5, 400, 2000]) * US, generator.randrange(90, 110) * US
        job.message(1 - target, target, sent=at, done=at + takes, ready=at - wait, received=at + takes)
        true[target, at - wait + job.shifts[target]] = wait
    answer = asked(tmp_path_factory.mktemp("job"), job.captures)
    clocks = placed(answer)
    assert clocks[1]["component"] == 0
    # Told for the middle of the window; away from it, clocks may drift apart by 0.1 %.
    error = clocks[1]["message_error_ns"] + MS // 2
    for row in answer.collectives.rows():
        if row["kind"] == "recv" and row["resolved"]:
            assert abs(row["wait_ns"] - true[row["rank"], row["start_ns"]]) <= error


def test_the_time_of_day_is_taken_where_the_bounds_allow_it(tmp_path):
    """Where a neighbour is always late its messages bound one side badly: the middle is off, the time of day is not."""
    job = Job([0, 40 * MS])
    job.message(0, 1, sent=10 * MS, done=10 * MS + 10, ready=18 * MS, received=18 * MS + 100 * US)
    job.message(1, 0, sent=11 * MS, done=11 * MS + 10, ready=10 * MS, received=11 * MS + 100 * US)
    store = store_of(tmp_path / "s.duckdb", *job.captures)
    middle = placed(with_time_of_day(store, [None, None]))[1]
    assert middle["offset_ns"] == pytest.approx(44 * MS, abs=10 * US)
    by_day = placed(with_time_of_day(store, [UNIX, UNIX - 40 * MS]))[1]
    assert by_day["offset_ns"] == 40 * MS
    assert by_day["message_error_ns"] == pytest.approx(8.1 * MS, rel=0.01)
    # A time of day that the bounds rule out tells nothing.
    assert placed(with_time_of_day(store, [UNIX, UNIX - 60 * MS]))[1]["offset_ns"] == middle["offset_ns"]


def test_bounds_of_a_thousand_stages_take_no_time_to_speak_of():
    """A chain, one way and both ways: searches that begin anew at each stage would take minutes."""
    count = 4000
    stages = np.arange(count - 1)
    one_way = _Bounds(stages, stages + 1, np.full(count - 1, 5), np.zeros(count, np.int64), 0)
    assert one_way.mutual() == []
    both = _Bounds(
        np.append(stages, stages + 1), np.append(stages + 1, stages), np.full(2 * count - 2, 5), one_way.base, 0
    )
    assert both.mutual() == [list(range(count))]


def steps_of_two_stages(first_steps, count=8):
    """Stages that exchange a message each way in a step of 10 ms; each recorded `count` steps from its first one on."""
    captures = []
    for rank, first in enumerate(first_steps):
        capture = Capture()
        for step in range(first, first + count):
            at = step * 10 * MS
            capture.event(EventKind.STEP_MARK, f"ProfilerStep#{step}", at, at + 9 * MS)
            for k, source in enumerate((0, 1)):
                begun = at + (1 + 4 * k) * MS
                number = 10 * step + k + 1
                capture.launch(at + 10 + k, at + 20 + k, number)
                kind = "send" if rank == source else "recv"
                start, end = (begun, begun + 50 * US) if rank == source else (begun - 300 * US, begun + 100 * US)
                capture.communication(start, end, kind, peer=1 - rank, correlation=number, stream=20 + k)
        captures.append(capture)
    return captures


@pytest.mark.parametrize("first_steps", [(0, 0), (0, 1), (3, 0)])
def test_messages_are_matched_in_the_steps_that_both_recorded(tmp_path, first_steps):
    answer = asked(tmp_path, steps_of_two_stages(first_steps))
    assert placed(answer)[1]["offset_ns"] == pytest.approx(0, abs=50 * US)
    waits = {row["wait_ns"] for row in answer.collectives.rows() if row["kind"] == "recv" and row["resolved"]}
    assert waits and all(wait == pytest.approx(300 * US, abs=50 * US) for wait in waits)
    apart = abs(first_steps[0] - first_steps[1])
    matched = [row for row in answer.collectives.rows() if row["last_rank"] is not None]
    assert len(matched) == 4 * (8 - apart)
    assert any("no counterpart" in warning for warning in answer.warnings) == (apart > 0)


def test_messages_of_windows_that_share_no_step_tell_nothing(tmp_path):
    answer = asked(tmp_path, steps_of_two_stages((0, 20)))
    assert {row["component"] for row in answer.clocks.rows()} == {None}
    assert {row["placed_by"] for row in answer.clocks.rows()} == {None}


def test_ranks_of_one_file_are_one_island():
    """Two components of one report are on its clock already, whatever messages between them would allow."""
    clocks = {rank: Clock(rank, 0, 0.0, 0, 5, 10, rank // 2, 20) for rank in range(6)}
    captures = {0: [7], 1: [7], 2: [7], 3: [7], 4: [8], 5: [9]}
    assert _islands(clocks, captures) == {0: 0, 1: 0, 2: 0, 3: 0, 4: 1, 5: 1}
