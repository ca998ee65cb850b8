"""Real jobs of up to eight ranks with a planted late rank: what was planted is what the answers say.

`truth.json` beside each recording says what was planted, and what the program measured on the host. The ranks of a job
ran on one host, so that its clocks are one: by how much the estimated offsets are off is known.
"""

import functools
import gzip
import itertools
import json
import re
from collections import Counter

import pytest

import traceanalyzer
from tests.recording.groups import tensor_group_size, tensor_groups
from tests.support.recorded_jobs import BANDWIDTH_TABLES, STACKS, recorded_jobs
from traceanalyzer.hardware import peaks_of
from traceanalyzer.report.figures.ranks import waits

MS, US = 1_000_000, 1_000
JOBS = recorded_jobs()
SEVERAL = [job for job in JOBS if job.ranks > 1]
SHIFT_NS = 3_700_001_234


def of_values(jobs, **wanted):
    return [job for job in jobs if all(job.truth[k] == v for k, v in wanted.items())]


def of(jobs, **wanted):
    return [pytest.param(job, id=job.name) for job in of_values(jobs, **wanted)]


@functools.cache
def asked(job, question, **options):
    with traceanalyzer.TraceSet.of_files(job.files) as traces:
        return getattr(traces, question)(**options)


def stragglers(job):
    return {row["rank"]: row for row in asked(job, "imbalance").stragglers.rows()}


def in_steps(job):
    """What the program communicates in its steps, counted from the first one; barriers are the recorder's."""
    rows = [row for row in asked(job, "collectives", top=0).collectives.rows() if row["step"] is not None]
    first = min(row["step"] for row in rows)
    return [{**row, "step": row["step"] - first} for row in rows if row["kind"] != "barrier"]


def test_there_are_jobs_of_every_pattern_with_every_plant():
    patterns = ("data_parallel", "fully_sharded", "two_groups", "all_to_all", "pipeline")
    plants = ("balanced", "late_host", "more_work", "takes_turns")
    found = {(job.truth["pattern"], job.truth["plant"]) for job in SEVERAL}
    assert found >= set(itertools.product(patterns, plants))
    assert {job.way for job in JOBS} == {"torch", "stack", "nsys"}
    assert {job.ranks for job in JOBS} >= {1, 2, 4, 8}
    assert BANDWIDTH_TABLES


SECRETS = re.compile(
    rb"(?i)hostname=|path=|/root\b|/home/|/work\b|\bGPU-(?!00000000-)[0-9a-f]{8}-|\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b|"
    rb"container_name|token=|secret|password|\b(?!127\.0\.0\.1\b)(?:10|172|192)\.\d+\.\d+\.\d+\b"
)
"""What files of a machine hold of it: environments, paths of people, addresses, names of devices."""


@pytest.mark.parametrize("job", of(JOBS))
def test_recordings_tell_nothing_of_the_machine(job):
    for file in job.files:
        assert not SECRETS.findall(gzip.decompress(file.read_bytes())), file.name


# ---------------------------------------------------------------- collectives


def expected(job):
    """What a rank communicates in a step by the program: kind and bytes of each operation, and how many."""
    sizes, world = job.truth["sizes"], job.ranks
    dim, width, rows, layers = (sizes[key] for key in ("dim", "width", "rows", "layers"))
    bf16 = 2
    if job.truth["pattern"] == "all_to_all":
        return [Counter({("all_to_all", rows * dim * bf16): 2 * layers})] * world
    if job.truth["pattern"] == "two_groups":
        size = tensor_group_size(world)
        reduced = Counter({("all_reduce", rows * dim * bf16): 2 * layers})
        if size < world:  # a group of one rank has nothing to communicate
            reduced[("all_reduce", 2 * dim * (width // size) * bf16)] += layers
        return [reduced] * world
    microbatches = 4
    size = rows // microbatches * dim * bf16
    out = []
    for rank in range(world):
        neighbours = (rank > 0) + (rank + 1 < world)
        out.append(
            Counter({("send", size): microbatches * neighbours}) + Counter({("recv", size): microbatches * neighbours})
        )
    return out


@pytest.mark.parametrize(
    "job", [p for name in ("all_to_all", "two_groups", "pipeline") for p in of(SEVERAL, pattern=name)]
)
def test_every_step_of_every_rank_has_the_operations_of_the_program(job):
    found = {}
    for row in in_steps(job):
        found.setdefault((row["rank"], row["step"]), Counter())[row["kind"], row["bytes"]] += 1
    assert len(found) == job.ranks * job.measured["steps"]
    for (rank, _), operations in found.items():
        assert operations == expected(job)[rank]


@pytest.mark.parametrize("job", of(SEVERAL, pattern="data_parallel"))
def test_gradients_are_reduced_once_a_step(job):
    dim, layers = (job.truth["sizes"][key] for key in ("dim", "layers"))
    reduced = Counter()
    for row in in_steps(job):
        assert row["kind"] == "all_reduce"
        reduced[row["rank"], row["step"]] += row["bytes"]
    assert len(reduced) == job.ranks * job.measured["steps"]
    assert set(reduced.values()) == {layers * (dim * dim + dim) * 2}


@pytest.mark.parametrize("job", of(SEVERAL, pattern="fully_sharded"))
def test_layers_are_gathered_for_both_passes_and_their_gradients_scattered_once(job):
    dim, layers = (job.truth["sizes"][key] for key in ("dim", "layers"))
    size = (dim * dim + dim) * 2
    found = Counter((row["rank"], row["step"], row["kind"]) for row in in_steps(job))
    assert all(row["bytes"] >= size for row in in_steps(job))
    for rank, step in itertools.product(range(job.ranks), range(job.measured["steps"])):
        assert found[rank, step, "all_gather"] == 2 * layers
        assert found[rank, step, "reduce_scatter"] == layers


@pytest.mark.parametrize("job", of(SEVERAL))
def test_every_operation_of_a_step_is_matched(job):
    assert all(row["last_rank"] is not None for row in in_steps(job))


@pytest.mark.parametrize("job", of(SEVERAL))
def test_clocks_of_one_host_are_found_equal_as_far_as_they_may_be_off(job):
    clocks = list(asked(job, "collectives", top=0).clocks.rows())
    # What each file counts from is known for files of one host: the time of day of it.
    with traceanalyzer.TraceSet.of_files(job.files) as traces:
        utc = {row["rank"]: row["offset_ns"] for row in traces.collectives(align="utc").clocks.rows()}
    assert {row["component"] for row in clocks} == {0}
    for row in clocks:
        off = abs(row["offset_ns"] - (utc[row["rank"]] - utc[clocks[0]["rank"]]))
        if job.truth["pattern"] == "pipeline":
            # Bounds, which a stage that is always late makes loose; the time of day lies within them.
            assert off == 0
            assert 100 * US < row["message_error_ns"] < 10 * MS
            continue
        # Ranks that share a GPU talk through sockets, and do not leave a collective as much together.
        shared = job.truth["share_one_gpu"]
        assert row["message_error_ns"] is None
        assert off < (300 * US if shared else 20 * US)
        assert 0 < row["residual_p95_ns"] < ((500 * US if job.ranks < 8 else 10 * MS) if shared else 50 * US)


@pytest.mark.parametrize(
    "job", of([job for job in SEVERAL if job.way != "nsys"], pattern="all_to_all", plant="more_work")
)
def test_a_clock_that_is_moved_moves_its_offset_and_nothing_else(job, tmp_path):
    files, moved = job.files, job.ranks - 1
    document = json.loads(gzip.decompress(files[moved].read_bytes()))
    for event in document["traceEvents"]:
        if "ts" in event:
            event["ts"] = f"{event['ts'] + SHIFT_NS / 1e3:.3f}"
    other = tmp_path / files[moved].name.removesuffix(".gz")
    other.write_text(json.dumps(document))
    with traceanalyzer.TraceSet.of_files([*files[:moved], other]) as traces:
        again = traces.collectives(top=0)
        late = [(row["rank"], row["excess_ns"]) for row in traces.imbalance().stragglers.rows()]
    before = {row["rank"]: row["offset_ns"] for row in asked(job, "collectives", top=0).clocks.rows()}
    for row in again.clocks.rows():
        shift = SHIFT_NS if row["rank"] == moved else 0
        assert row["offset_ns"] - before[row["rank"]] == pytest.approx(shift, abs=2 * US)
    assert late == [(row["rank"], row["excess_ns"]) for row in stragglers(job).values()]


# ---------------------------------------------------------------- imbalance


@pytest.mark.parametrize("job", of(SEVERAL, plant="balanced"))
def test_nobody_is_named_where_nothing_was_planted(job):
    assert stragglers(job) == {}


@pytest.mark.parametrize("job", of(SEVERAL, plant="late_host"))
def test_the_rank_whose_host_sleeps_is_named_with_its_function(job):
    (row,) = stragglers(job).values()
    rank = job.truth["planted"]["rank"]
    slept = [job.late_ns(rank, step) for step in range(job.measured["steps"])]
    assert (row["rank"], row["kind"], row["part"]) == (rank, "systematic", "idle")
    assert row["excess_ns"] == pytest.approx(sum(slept) / len(slept), rel=0.12)
    assert row["more_ns"] == pytest.approx(sum(slept) / len(slept), rel=0.2)
    if job.way in STACKS:
        assert job.truth["planted"]["function"] in row["reason"]
        assert any(frame.startswith(job.truth["planted"]["function"]) for frame in row["stack"])


@pytest.mark.parametrize("job", of(SEVERAL, plant="more_work"))
def test_the_rank_with_more_work_is_named_by_its_compute(job):
    (row,) = stragglers(job).values()
    rank, share = job.truth["planted"]["rank"], job.truth["planted"]["extra_work"]
    assert (row["rank"], row["kind"], row["part"]) == (rank, "systematic", "compute")
    useful = {r["rank"]: r["useful_ns"] for r in asked(job, "imbalance").ranks.rows()}
    others = sorted(ns for other, ns in useful.items() if other != rank)
    # Kernels of fewer rows are less efficient, those of the optimizer do not have more to do.
    more = useful.pop(rank) / others[len(others) // 2] - 1
    assert share * 0.4 < more < share * 3
    assert row["more_ns"] == pytest.approx(more * others[len(others) // 2], rel=0.25)


@pytest.mark.parametrize("job", of(SEVERAL, plant="takes_turns"))
def test_ranks_that_take_turns_are_named_for_their_steps(job):
    rows = list(asked(job, "imbalance").excess.rows())
    first = min(row["step"] for row in asked(job, "steps").steps.rows())
    turns = Counter()
    for row in rows:
        slept = job.late_ns(row["rank"], row["step"] - first)
        if slept:
            turns[row["rank"]] += 1
            assert row["excess_ns"] == pytest.approx(slept, rel=0.3)
        else:
            assert row["excess_ns"] < 3 * MS
    assert sum(turns.values()) == len({row["step"] for row in rows})
    found = stragglers(job)
    assert {rank: row["late_steps"] for rank, row in found.items()} == dict(turns)
    for rank, row in found.items():
        every = turns[rank] >= 3
        assert (row["kind"], row["period"]) == (("periodic", job.ranks) if every else ("occasional", None))
        assert row["excess_ns"] == pytest.approx(8 * MS, rel=0.15)


GROUPED = [job for job in SEVERAL if 1 < tensor_group_size(job.ranks) < job.ranks]


@pytest.mark.parametrize("job", of(GROUPED, pattern="two_groups", plant="late_host"))
def test_a_culprit_is_traced_across_two_kinds_of_group(job):
    """Ranks that share no group with the late rank wait for one that waited for it: it is named, and not they."""
    late = job.truth["planted"]["rank"]
    rows = in_steps(job)
    near = {rank for row in rows if late in row["ranks"] for rank in row["ranks"]}
    far = set(range(job.ranks)) - near
    assert far
    waits = {r["rank"]: r["wait_ns"] for r in asked(job, "imbalance").ranks.rows()}
    assert all(waits[rank] > 2 * waits[late] for rank in far)
    assert set(stragglers(job)) == {late}
    # Those in a tensor-parallel group with it wait for itself, and longest at the first collective of a step.
    (peers,) = (set(group) - {late} for group in tensor_groups(job.ranks) if late in group)
    longest = {}
    for row in rows:
        if row["rank"] in peers and late in row["ranks"] and row["resolved"]:
            key = row["rank"], row["step"]
            longest[key] = max(longest.get(key, row), row, key=lambda each: each["wait_ns"])
    assert len(longest) == len(peers) * job.measured["steps"]
    assert sum(row["last_rank"] == late for row in longest.values()) > 0.7 * len(longest)


@pytest.mark.parametrize("job", of(SEVERAL, plant="late_host"))
def test_the_others_wait_for_no_longer_than_the_rank_is_late(job):
    (row,) = stragglers(job).values()
    latest = max(each["excess_ns"] for each in asked(job, "imbalance").excess.rows())
    assert row["others_wait_ns"] <= (job.ranks - 1) * latest
    # Most of them wait for most of that.
    assert row["others_wait_ns"] > 0.5 * (job.ranks - 1) * row["excess_ns"]


@pytest.mark.parametrize("job", of(SEVERAL, pattern="pipeline", plant="more_work"))
def test_waits_that_a_pipeline_has_anyway_are_not_put_down_to_the_late_rank(job):
    """Of the waits, which are its bubbles for the most part, a check-up says how much no lateness explains."""
    answer = asked(job, "checkup")
    (verdict,) = (row for row in answer.verdicts.rows() if row["verdict"] == "straggler_bound")
    beyond, what_if = verdict["remarks"][:2]
    late = stragglers(job)[job.truth["planted"]["rank"]]
    assert "no lateness explains" in beyond
    assert float(beyond.split()[0]) == pytest.approx((verdict["cost_ns"] - late["excess_ns"]) / MS, abs=0.001)
    (efficiency,) = asked(job, "imbalance").efficiency.rows()
    assert efficiency["replay_error"] > 0.05
    assert "could not be replayed well enough" in what_if


# ---------------------------------------------------------------- scaling


def training():
    """Balanced data-parallel jobs of several numbers of ranks that differ in nothing else."""
    found = {}
    for job in of_values(JOBS, pattern="data_parallel", plant="balanced"):
        found.setdefault((job.folder.parent, job.way, json.dumps(job.truth["sizes"])), {})[job.ranks] = job
    return [dict(sorted(jobs.items())) for jobs in found.values() if len(jobs) > 2 and 1 in jobs]


@pytest.fixture(params=[pytest.param(jobs, id=jobs[1].folder.parent.name) for jobs in training()])
def scaled(request):
    return list(request.param.values())


def test_scaling_of_recorded_steps_is_that_of_the_clock_on_the_wall(scaled, tmp_path):
    assert {job.ranks for job in scaled} >= {1, 2, 4, 8}
    store = tmp_path / "s.duckdb"
    for job in scaled:
        traceanalyzer.ingest(job.files, store, run=job.folder.name)
    with traceanalyzer.open(store) as traces:
        rows = {row["ranks"]: row for row in traces.scaling(run="all").scaling.rows()}
    alone = scaled[0].measured["median_step_ms"]
    for job in scaled:
        assert rows[job.ranks]["efficiency"] == pytest.approx(alone / job.measured["median_step_ms"], rel=0.03)


def test_scaling_of_measured_throughput_is_found_again(scaled, tmp_path):
    file = tmp_path / "scaling.csv"
    rows = scaled[0].truth["sizes"]["training_rows"]
    steps = {job.ranks: job.truth["measured"]["unprofiled"]["median_step_ms"] for job in scaled}
    lines = [f"{ranks},{ranks * rows / (step / 1e3):.1f}" for ranks, step in steps.items()]
    file.write_text("\n".join(["ranks,throughput", *lines]) + "\n")
    found = {row["ranks"]: row["efficiency"] for row in traceanalyzer.scaling_of_file(file).scaling.rows()}
    assert found == {ranks: pytest.approx(steps[1] / step, rel=1e-4) for ranks, step in steps.items()}


# ---------------------------------------------------------------- bandwidth


BANDWIDTHS = [pytest.param(path, id=path.name) for path in BANDWIDTH_TABLES]


@pytest.mark.parametrize("table", BANDWIDTHS)
def test_measured_bandwidths_are_read_with_their_factors(table):
    with traceanalyzer.TraceSet.of_files([table]) as traces:
        rows = list(traces.sql("SELECT instance, metric, value FROM metric_samples").table("rows").rows())
    found = {}
    for row in rows:
        found.setdefault(row["instance"], {})[row["metric"]] = row["value"]
    assert len(found) % 4 == 0  # as many sizes of each of four kinds
    for instance, values in found.items():
        told = dict(part.split("=", 1) for part in instance.split())
        ranks, size = int(told["ranks"]), int(told["bytes"])
        factor = (2 if told["collective"] == "all_reduce" else 1) * (ranks - 1) / ranks
        # Two decimals of microseconds and of GB/s are printed.
        rate = size / values["time"] / 1e3
        assert values["algbw"] == pytest.approx(rate, abs=0.006 + rate * 0.006 / values["time"])
        assert values["busbw"] == pytest.approx(values["algbw"] * factor, abs=0.02)
    assert {2**23, 2**29} <= {int(instance.split("bytes=")[1].split()[0]) for instance in found}


# ---------------------------------------------------------------- what follows from them elsewhere


@pytest.mark.parametrize("job", of(SEVERAL, pattern="two_groups", plant="more_work"))
def test_a_part_of_a_gpu_has_the_peaks_of_its_multiprocessors(job):
    whole = peaks_of("NVIDIA H200")
    (peak,) = {row["value"] for row in asked(job, "throughput").peaks.rows() if row["peak"] == "bf16"}
    part = 14 / whole.multiprocessors if job.truth["share_one_gpu"] else 1
    assert peak == pytest.approx(whole.tflops["bf16"] * part)


@pytest.mark.parametrize("job", of(SEVERAL, pattern="pipeline", plant="balanced"))
def test_a_page_says_where_waits_are_not_known(job):
    """Stages that are no neighbours exchange no messages."""
    with traceanalyzer.TraceSet.of_files([job.files[0], job.files[2]]) as traces:
        answer = traces.imbalance()
    assert {row["wait_ns"] for row in answer.ranks.rows()} == {None}
    figure = waits(answer)
    assert figure is not None and figure.words == "Which ranks wait is not known: no clock tells."
    assert any("unresolved" in trace["name"] for trace in figure.traces)
