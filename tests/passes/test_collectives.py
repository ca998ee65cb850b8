"""Collectives: matching, clocks, waits and bandwidth, on small jobs worked out by hand, simulated ones, real ones."""

import random
from collections import Counter, defaultdict

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import traceanalyzer
from tests.support.real_traces import SHARED
from tests.support.store_builder import Capture, store_of
from traceanalyzer.errors import UsageError
from traceanalyzer.passes.communication.kinds import Kind, bus_factor, kind_of, total_bytes
from traceanalyzer.schema.kinds import EventKind

US = 1000
PUBLIC = SHARED / "public" / "torch"
OWN = SHARED / "traces"


def asked(tmp_path, captures, question="collectives", **selection):
    with traceanalyzer.open(store_of(tmp_path / "s.duckdb", *captures)) as opened:
        return getattr(opened, question)(**selection)


def job(starts, *, transfer=100 * US, offsets=None, kind="allreduce", **more):
    """Captures of ranks that begin each collective at `starts[c][r]` us of true time, and end it together.

    `offsets` is what the clock of each rank shows more, in us.
    """
    ranks = range(len(starts[0]))
    captures = [Capture() for _ in ranks]
    for c, arrivals in enumerate(starts):
        end = max(arrivals) * US + transfer
        for rank in ranks:
            shift = (offsets or [0] * len(ranks))[rank] * US
            captures[rank].communication(
                arrivals[rank] * US + shift, end + shift, kind, ranks=tuple(ranks), elements=1000 + c % 3, **more
            )
    return captures


def waits(answer):
    found = defaultdict(dict)
    for row in answer.collectives.rows():
        found[row["ordinal"]][row["rank"]] = row["wait_ns"]
    return dict(found)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("_allgather_base", Kind.ALL_GATHER),
        ("allreduce_coalesced", Kind.ALL_REDUCE),
        ("ncclAllReduce", Kind.ALL_REDUCE),
        ("reduce_scatter_tensor_coalesced", Kind.REDUCE_SCATTER),
        ("all_to_allv", Kind.ALL_TO_ALL),
        ("pncclBcast", Kind.BROADCAST),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", Kind.SEND_RECV),
        ("ncclDevKernel_Generic", Kind.UNKNOWN),
        ("gather", Kind.GATHER),
        ("recv", Kind.RECV),
    ],
)
def test_kinds_by_name(name, kind):
    assert kind_of(name) is kind


def test_factors_of_nccl_tests():
    assert [bus_factor(kind, 4) for kind in (Kind.ALL_REDUCE, Kind.ALL_GATHER, Kind.BROADCAST)] == [1.5, 0.75, 1.0]
    # NCCL says what one rank sends; nccl-tests counts the whole array.
    assert total_bytes(Kind.ALL_GATHER, 1000, 4) == 4000
    assert total_bytes(Kind.ALL_REDUCE, 1000, 4) == 1000
    assert total_bytes(Kind.REDUCE_SCATTER, 1000, None) is None


def test_the_late_rank_is_named_and_not_the_one_whose_clock_is_off(tmp_path):
    # Rank 2 is 2 ms late each time; the clock of rank 1 shows 5 ms more.
    starts = [[10_000 * c, 10_000 * c + 3, 10_000 * c + 2000, 10_000 * c + 1] for c in range(1, 9)]
    answer = asked(tmp_path, job(starts, offsets=[0, 5000, 0, 0]))
    assert {row["last_rank"] for row in answer.collectives.rows()} == {2}
    assert all(of == {0: 2000 * US, 1: 1997 * US, 2: 0, 3: 1999 * US} for of in waits(answer).values())
    assert [row["offset_ns"] for row in answer.clocks.rows()] == [0, 5000 * US, 0, 0]
    assert {row["transfer_ns"] for row in answer.collectives.rows()} == {100 * US}
    assert any("rank 2" in f.text for f in answer.findings if f.code == "last_arriver")


def test_without_alignment_the_clocks_are_as_they_are(tmp_path):
    starts = [[10_000 * c, 10_000 * c + 200] for c in range(1, 9)]
    answer = asked(tmp_path, job(starts, offsets=[0, -500]), align="none")
    assert {row["last_rank"] for row in answer.collectives.rows()} == {0}
    with pytest.raises(UsageError, match="give collectives, utc, none"):
        asked(tmp_path, job(starts), align="both")


def test_sequence_numbers_match_whatever_a_rank_lacks(tmp_path):
    one, two = Capture(), Capture()
    for c in range(6):
        at = 1000 * c * US
        if c >= 2:
            one.communication(at, at + 300 * US, sequence=c)
        if c < 5:
            two.communication(at + 50 * US, at + 300 * US, sequence=c)
    answer = asked(tmp_path, [one, two])
    matched = {row["ordinal"] for row in answer.collectives.rows() if row["last_rank"] is not None}
    assert matched == {2, 3, 4}
    assert any("in the window of one rank only" in warning for warning in answer.warnings)


@pytest.mark.parametrize("lost", [1, 5])
def test_orders_are_lined_up_where_a_rank_began_later(tmp_path, lost):
    # Sizes repeat with a period of 3, so only the ends tell shifts of 3 apart.
    generator = random.Random(lost)
    at, starts = 0, []
    for _ in range(30):
        at += generator.randrange(500, 5000)
        starts.append([at, at + generator.randrange(0, 200)])
    captures = job(starts)
    del captures[1].ops[:lost], captures[1].collectives[:lost]
    for row in captures[1].collectives:
        row["op_id"] -= lost
    answer = asked(tmp_path, captures)
    found = [row for row in answer.collectives.rows() if row["rank"] == 1]
    assert sorted(row["ordinal"] for row in found) == list(range(lost, 30))
    assert {row["offset_ns"] for row in answer.clocks.rows()} == {0}


def test_steps_tell_the_order_of_windows_that_are_as_long_but_began_apart(tmp_path):
    """Rank 0 recorded steps 0 to 7, rank 1 steps 1 to 8; all collectives look alike."""
    generator = random.Random(5)
    begin = [0]
    for _ in range(9):
        begin.append(begin[-1] + generator.randrange(3_000_000, 5_000_000))
    captures = []
    for rank in range(2):
        capture = Capture()
        for step in range(rank, 8 + rank):
            at = begin[step]
            capture.event(EventKind.STEP_MARK, f"ProfilerStep#{step}", at, at + 2_000_000)
            capture.launch(at + 10, at + 20, step + 1)
            capture.communication(at + 1000 * (1 - rank) + 50_000, at + 300_000, correlation=step + 1)
        captures.append(capture)
    answer = asked(tmp_path, captures)
    assert [row["offset_ns"] for row in answer.clocks.rows()] == [0, 0]
    steps = {}
    for row in answer.collectives.rows():
        steps.setdefault(row["ordinal"], set()).add(row["step"])
    assert all(len(found) == 1 for found in steps.values())


def test_two_collectives_are_lined_up_as_they_are(tmp_path):
    """Ends of one pair are a constant time apart by nature, so that two of them cannot tell a shift."""
    answer = asked(tmp_path, job([[11_000, 14_000], [201_000, 207_000]], offsets=[0, 3_000]))
    assert sorted((row["rank"], row["ordinal"]) for row in answer.collectives.rows()) == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    ]
    assert not [warning for warning in answer.warnings if "one rank only" in warning]


def test_links_of_ranks_on_no_common_clock_are_of_the_shorter_side(tmp_path):
    one, two = Capture(), Capture()
    for c in range(4):
        one.communication(1000 * c * US, (1000 * c + 100) * US, "send", peer=1, elements=25_000_000)
        two.communication((1000 * c + 40) * US, (1000 * c + 100) * US, "recv", peer=0, elements=25_000_000)
    answer = asked(tmp_path, [one, two])
    (row,) = answer.links.rows()
    assert (row["source_rank"], row["target_rank"]) == (0, 1)
    assert row["bandwidth_gbs"] == pytest.approx(100_000_000 / 60_000)
    assert not len(answer.bandwidth)  # it is not known who came last


def test_orders_that_do_not_line_up_are_unmatched_and_said(tmp_path):
    one, two = Capture(), Capture()
    for c in range(4):
        one.communication(1000 * c * US, 1000 * c * US + 10 * US, elements=100 + c)
        two.communication(1000 * c * US, 1000 * c * US + 10 * US, elements=900 - c)
    answer = asked(tmp_path, [one, two])
    assert {row["resolved"] for row in answer.collectives.rows()} == {False}
    assert any("do not line up" in warning for warning in answer.warnings)


def test_a_broadcast_waits_for_its_root_and_the_root_of_a_reduce_for_all(tmp_path):
    def capture(rank):
        out = Capture()
        for c in range(4):  # these tell the clocks
            out.communication(1000 * c * US, (1000 * c + 50) * US, ranks=(0, 1, 2))
        late = (0, 30, 10)[rank]
        out.communication((5000 + late) * US, 5100 * US, "broadcast", ranks=(0, 1, 2), root=2)
        out.communication((6000 + late) * US, 6100 * US, "reduce", ranks=(0, 1, 2), root=2)
        return out.communication((7000 + late) * US, 7100 * US, "broadcast", ranks=(0, 1, 2))

    answer = asked(tmp_path, [capture(rank) for rank in range(3)])
    rows = {(row["kind"], row["ordinal"], row["rank"]): row for row in answer.collectives.rows()}
    assert [rows["broadcast", 4, rank]["wait_ns"] for rank in range(3)] == [10 * US, 0, 0]
    assert [rows["reduce", 5, rank]["wait_ns"] for rank in range(3)] == [0, 0, 20 * US]
    # Without a root it is not known who waits for whom.
    assert [rows["broadcast", 6, rank]["resolved"] for rank in range(3)] == [False] * 3


def test_sends_wait_for_late_receivers_and_receives_for_late_senders(tmp_path):
    one, two = Capture(), Capture()
    for c in range(4):
        for capture in (one, two):
            capture.communication(1000 * c * US, (1000 * c + 50) * US)
    one.communication(5000 * US, 5200 * US, "send", peer=1).communication(6100 * US, 6200 * US, "send", peer=1)
    two.communication(5080 * US, 5200 * US, "recv", peer=0).communication(6000 * US, 6200 * US, "recv", peer=0)
    rows = {(row["kind"], row["ordinal"]): row for row in asked(tmp_path, [one, two]).collectives.rows()}
    assert (rows["send", 0]["wait_ns"], rows["recv", 0]["wait_ns"]) == (80 * US, 0)
    assert (rows["send", 1]["wait_ns"], rows["recv", 1]["wait_ns"]) == (0, 100 * US)
    assert (rows["send", 0]["last_rank"], rows["send", 1]["last_rank"]) == (1, 0)


def test_bandwidth_is_of_the_transfer_of_the_last_arriver(tmp_path):
    starts = [[1000 * c, 1000 * c + 400, 1000 * c + 20, 1000 * c] for c in range(1, 7)]
    captures = job(starts, transfer=50 * US)
    for capture in captures:
        for row in capture.collectives:
            row["elements_in"] = row["elements_out"] = 25_000_000
    (row,) = asked(tmp_path, captures).bandwidth.rows()
    # 100 MB in 50 us are 2000 GB/s; an all-reduce of 4 ranks loads the bus 1.5 times as much.
    assert (row["bytes"], row["count"], row["transfer_ns"]) == (100_000_000, 6, 50 * US)
    assert (row["algbw_gbs"], row["busbw_gbs"]) == (2000.0, 3000.0)


def test_ranks_that_no_collective_connects_are_not_compared(tmp_path):
    captures = []
    for pair in ((0, 1), (2, 3)):
        for rank in pair:
            capture = Capture()
            for c in range(4):
                at = 1000 * c + (100 if rank in (1, 3) else 0)
                capture.communication(at * US, (1000 * c + 300) * US, group=str(pair[0]), ranks=pair)
            captures.append(capture)
    answer = asked(tmp_path, captures)
    assert [row["component"] for row in answer.clocks.rows()] == [0, 0, 1, 1]
    assert any("no collective connects" in warning for warning in answer.warnings)


def test_kernels_that_tell_nothing_are_matched_by_their_names_and_that_is_said(tmp_path):
    captures = []
    for rank in range(2):
        capture = Capture()
        for c in range(4):
            at = 1000 * c + 70 * rank
            capture.launch((at - 5) * US, at * US, c + 1)
            capture.kernel(at * US, (1000 * c + 300) * US, c + 1, "ncclDevKernel_AllReduce_Sum_f32_RING_LL")
        captures.append(capture)
    answer = asked(tmp_path, captures)
    assert all(of == {0: 70 * US, 1: 0} for of in waits(answer).values())
    assert any("by the names of their kernels alone" in warning for warning in answer.warnings)


def test_selected_ranks_and_steps_are_shown_but_matched_with_all(tmp_path):
    starts = [[1000 * c, 1000 * c + 200] for c in range(1, 7)]
    rows = list(asked(tmp_path, job(starts), rank="0").collectives.rows())
    assert {(row["rank"], row["wait_ns"]) for row in rows} == {(0, 200 * US)}


def test_the_ledger_splits_communication_that_compute_does_not_hide(tmp_path):
    starts = [[1000 * c, 1000 * c + 400] for c in range(1, 7)]
    captures = job(starts, transfer=100 * US)
    for c in range(1, 7):  # compute hides the first 100 us of the wait of rank 0, and of nothing else
        captures[0].kernel((1000 * c - 50) * US, (1000 * c + 100) * US)
    rows = asked(tmp_path, captures, "ledger").totals.rows()
    found = {(row["rank"], row["category"]): row["ns"] for row in rows}
    assert found[0, "communication_wait"] == 6 * 300 * US
    assert found[0, "communication_transfer"] == found[1, "communication_transfer"] == 6 * 100 * US
    assert (1, "communication_wait") not in found


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    world=st.integers(2, 5),
    tensor=st.sampled_from([1, 2, 3]),
    drift=st.sampled_from([0.0, 40.0]),
)
@example(seed=7, world=9, tensor=3, drift=40.0)  # larger than those at random, which take long to store
@example(seed=461, world=3, tensor=3, drift=40.0)  # two ranks of a group arrive within the jitter of each other
def test_waits_and_clocks_of_random_jobs(tmp_path_factory, seed, world, tensor, drift):
    """Groups of neighbours and of ranks across them; offsets of seconds; jitter below 2 us; against a slow loop."""
    generator = random.Random(seed)
    world *= tensor
    shifts = [0, *(generator.randrange(-(10**9), 10**9) for _ in range(world - 1))]
    drifts = [0.0, *(generator.uniform(-drift, drift) for _ in range(world - 1))]
    rows = [tuple(range(k, k + tensor)) for k in range(0, world, tensor)]
    groups = [g for g in rows + [tuple(range(k, world, tensor)) for k in range(tensor)] if len(g) > 1]
    captures = [Capture() for _ in range(world)]
    true = {}
    clock = [0] * world
    for ordinal in range(30):
        for name, ranks in enumerate(groups):
            arrive = {r: clock[r] + generator.randrange(1_000, 40_000_000) for r in ranks}
            end = max(arrive.values()) + generator.randrange(100_000, 400_000)
            for r in ranks:
                done = end + generator.randrange(0, 1500)
                shown = [t + shifts[r] + round(t * drifts[r] / 1e6) for t in (arrive[r], done)]
                captures[r].communication(*shown, group=str(name), ranks=ranks, sequence=ordinal)
                second, latest = sorted(arrive.values())[-2:]
                true[name, ordinal, r] = latest - arrive[r], max(arrive, key=arrive.get), latest - second
                clock[r] = done
    folder = tmp_path_factory.mktemp("job")
    answer = asked(folder, captures)
    residual = max(row["residual_p95_ns"] for row in answer.clocks.rows())
    assert residual < 20 * US
    labels = {}
    for name, ranks in enumerate(groups):
        labels[tuple(ranks)] = name
    for row in answer.collectives.rows():
        wait, last, ahead = true[labels[tuple(row["ranks"])], row["ordinal"], row["rank"]]
        if row["resolved"]:
            assert abs(row["wait_ns"] - wait) <= 2 * residual + 2 * US
            assert row["wait_ns"] + row["transfer_ns"] == row["duration_ns"]
        if wait > 20 * US + 4 * residual:
            assert row["resolved"]
        if ahead > 2 * US + 2 * residual:  # closer than that no clock tells which of two came last
            assert row["last_rank"] == last


def public(pattern):
    files = sorted(PUBLIC.glob(pattern))
    if not files:
        pytest.skip("the public traces are not here")
    return files


def by_hand(rows, clocks):
    """Waits of all-to-all kinds from starts, durations and offsets, collective by collective, in a plain loop."""
    offset = {row["rank"]: row["offset_ns"] for row in clocks}
    members = defaultdict(list)
    for row in rows:
        if row["last_rank"] is not None:
            members[row["group"], row["ordinal"]].append(row)
    for of in members.values():
        latest = max(row["start_ns"] - offset[row["rank"]] for row in of)
        for row in of:
            yield row, min(row["duration_ns"], latest - (row["start_ns"] - offset[row["rank"]]))


def test_ranks_3_to_7_of_a_public_job_wait_39_ms_in_all_mostly_for_rank_1():
    with traceanalyzer.TraceSet.of_files(public("nanogpt_8xh100_r*.json.gz")) as opened:
        answer = opened.collectives(top=0)
    rows = list(answer.collectives.rows())
    found = list(by_hand(rows, answer.clocks.rows()))
    assert len(found) == 8 * 56
    for row, wait in found:
        assert row["wait_ns"] == wait if row["resolved"] else row["wait_ns"] is None
    # What each rank waits in all, and what of it for rank 1, in ms.
    every, for_one = Counter(), Counter()
    for row, wait in found:
        every[row["rank"]] += wait / 1e6
        for_one[row["rank"]] += wait / 1e6 * (row["last_rank"] == 1)
    assert all(every[rank] == pytest.approx(39, abs=0.7) for rank in range(3, 8))
    assert every[1] == pytest.approx(5.5, abs=0.2)
    assert all(for_one[rank] > 0.85 * every[rank] for rank in range(3, 8))
    assert max(row["residual_p95_ns"] for row in answer.clocks.rows()) < 100 * US
    assert Counter(row["last_rank"] for row, wait in found if wait > 1000 * US).most_common(1)[0][0] == 1


@pytest.mark.parametrize("workload", ["ddp2_slow1", "fsdp2", "a2a2", "ddp2_heavy1", "ddp2_occasional", "ddp2_healthy"])
def test_nsys_and_torch_tell_the_same_collectives(workload):
    """Kinds, sizes and counts a step; the captures are of other steps of the same program."""
    files = sorted((OWN / workload).glob("rank?.json.gz"))
    if not files:
        pytest.skip("the captures are not here")
    kinds = {}
    singles = sorted((OWN / workload).glob("nsys.rank?.sqlite.gz"))
    for name, paths in (("torch", files), ("nsys", [OWN / workload / "nsys.sqlite.gz"]), ("nsys apart", singles)):
        if not paths:
            continue
        with traceanalyzer.TraceSet.of_files(paths) as opened:
            rows = [row for row in opened.collectives(top=0).collectives.rows() if row["step"] is not None]
        steps = len({row["step"] for row in rows})
        # PyTorch's barrier is an all-reduce of one float.
        told = [("all_reduce", 4) if row["kind"] == "barrier" else (row["kind"], row["bytes"]) for row in rows]
        kinds[name] = {key: count / steps for key, count in Counter(told).items()}
        assert all(row["last_rank"] is not None for row in rows)
    assert len({tuple(sorted(found.items())) for found in kinds.values()}) == 1, kinds


def test_the_clocks_of_one_machine_agree_to_microseconds():
    files = sorted((OWN / "ddp2_slow1").glob("rank?.json.gz"))
    if not files:
        pytest.skip("the captures are not here")
    with traceanalyzer.TraceSet.of_files(files) as opened:
        clocks = list(opened.collectives().clocks.rows())
    assert all(0 < row["residual_p95_ns"] < 20 * US for row in clocks)
    assert all(abs(row["offset_ns"]) < 50 * US for row in clocks)


def test_calls_on_the_host_stand_in_where_no_device_communicates(tmp_path):
    captures = []
    for rank in range(2):
        capture = Capture().launch(0, 5, 1).kernel(10, 20, 1)
        for c in range(4):
            at = 1000 * c + 30 * rank
            capture.event(EventKind.HOST_COMMUNICATION, "MPI_Allreduce", at * US, (1000 * c + 100) * US)
            capture.event(EventKind.HOST_COMMUNICATION, "MPI_Isend", (1000 * c + 200) * US, (1000 * c + 201) * US)
        captures.append(capture)
    answer = asked(tmp_path, captures)
    assert [(row["kind"], row["device"]) for row in answer.collectives.rows()] == [("all_reduce", None)] * 8
    assert all(of == {0: 30 * US, 1: 0} for of in waits(answer).values())
    assert any("calls on the host alone" in warning for warning in answer.warnings)


def test_two_collectives_tell_no_clock(tmp_path):
    answer = asked(tmp_path, job([[1000, 1200], [2000, 2200]]))
    assert {row["component"] for row in answer.clocks.rows()} == {None}
    assert {row["resolved"] for row in answer.collectives.rows()} == {False}
    assert {row["last_rank"] for row in answer.collectives.rows()} == {None}


@pytest.mark.parametrize("ranks", ["[" * 100_000, "[0, 99999999999999999999]", "[-1, 0]", "{}", "[true, 0]"])
def test_lists_of_ranks_that_are_none_are_not_believed(tmp_path, ranks):
    captures = job([[1000 * c, 1000 * c + 200] for c in range(1, 7)])
    for capture in captures:
        for row in capture.collectives:
            row["group_ranks"] = ranks
    answer = asked(tmp_path, captures)
    assert all(of == {0: 200 * US, 1: 0} for of in waits(answer).values())
