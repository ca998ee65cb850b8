"""The timeline of all ranks: what it holds, that viewers can show it, and that it reads back as the same times."""

import gzip
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import traceanalyzer
from tests.support.real_traces import MISSING, TRACES
from tests.support.store_builder import Capture, store_of
from tests.support.timeline_checker import Timeline
from traceanalyzer.errors import ExportError, UsageError
from traceanalyzer.export.timeline import communication, derived, stream, write
from traceanalyzer.ingestion import ingest
from traceanalyzer.schema.kinds import EventKind
from traceanalyzer.traceset import TraceSet
from traceanalyzer.units import Unit, format_value

SAMPLES = Path(__file__).parents[1] / "sample_traces"
ALL_WAIT = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
DEVICES = (
    *("rank", "device", "span_ns", "busy_ns", "idle_ns"),
    *("compute_ns", "communication_ns", "copy_ns", "n_ops", "n_gaps"),
)
HOSTILE = '</script>"\\ \x01\u2028 {}, {"ph":"X" é % \U0001f600'


def ranks(folder, name="rank{}.json.gz"):
    return [folder / name.format(rank) for rank in (0, 1)]


# Of each: files, the alignment, whether all causes come back (those of samples do not), ids.
ROUND_TRIPS = [
    pytest.param([SAMPLES / "planted_sleep" / "torch.stack.json.gz"], "collectives", True, id="planted_sleep"),
    pytest.param(ranks(SAMPLES / "ddp2_slow1", "rank{}.stack.json.gz"), "collectives", True, id="ddp2_slow1"),
    pytest.param([SAMPLES / "launch_bound" / "nsys.sqlite.gz"], "collectives", False, id="nsys with samples"),
]
SHARED = [
    (ranks(TRACES / "a2a2"), "collectives", True),
    (ranks(TRACES / "ddp2_healthy"), "none", True),
    ([TRACES / "a2a2" / "nsys.sqlite.gz"], "collectives", True),
    ([TRACES / "cuda_graph" / "nsys.graph.sqlite.gz"], "collectives", True),
    ([TRACES / "amp_small" / "nsys.node.sqlite.gz"], "collectives", True),
]
ROUND_TRIPS += [
    pytest.param(
        *each,
        id=f"{each[0][0].parent.name}/{each[0][0].name}",
        marks=pytest.mark.skipif(not TRACES.is_dir(), reason=MISSING),
    )
    for each in SHARED
]


@pytest.fixture(scope="module")
def store_of_files(tmp_path_factory):
    """Real traces are read once, whatever is asked of them."""
    known = {}

    def store(files):
        key = tuple(files)
        if key not in known:
            known[key] = tmp_path_factory.mktemp("real") / "s.duckdb"
            ingest(files, known[key])
        return traceanalyzer.open(known[key])

    return store


def ingested(folder, *files):
    folder.mkdir(exist_ok=True)
    ingest(files, folder / "s.duckdb")
    return traceanalyzer.open(folder / "s.duckdb")


def exported(store, path, **selection):
    """A valid timeline of a store."""
    with traceanalyzer.open(store) as traces:
        traces.export_timeline(path, **selection)
    return Timeline(path)


def times(traces, **selection):
    answer = traces.gaps(top=0, **selection)
    devices = sorted(tuple(row[name] for name in DEVICES) for row in answer.devices.rows())
    causes = sorted(
        (row["rank"], row["device"], row["cause"], row["idle_ns"], row["n_pieces"]) for row in answer.causes.rows()
    )
    return devices, causes


@pytest.mark.parametrize(("files", "align", "causes_too"), ROUND_TRIPS)
def test_read_back_it_gives_the_same_device_times_to_the_nanosecond(store_of_files, tmp_path, files, align, causes_too):
    with store_of_files(files) as traces:
        answer = traces.export_timeline(tmp_path / "t.json.gz", align=align)
        devices, causes = times(traces)
        steps = [(r["rank"], r["step"], r["device_duration_ns"]) for r in traces.steps(top=0).steps.rows()]
    timeline = Timeline(tmp_path / "t.json.gz")
    (file,) = answer.files.rows()
    assert file["rows"] == len(timeline.events) and file["file_bytes"] == (tmp_path / "t.json.gz").stat().st_size
    assert len(timeline.text.encode()) < 400 * len(timeline.events)  # and some 20 bytes an event when packed
    with ingested(tmp_path / "back", tmp_path / "t.json.gz") as back:
        info = back.info()
        assert info.warnings == [] and {row["code"] for row in info.quality.rows()} <= {"derived_rows"}
        back_devices, back_causes = times(back)
        back_steps = [(r["rank"], r["step"], r["device_duration_ns"]) for r in back.steps(top=0).steps.rows()]
    assert devices and back_devices == devices
    assert sorted(back_steps) == sorted(steps)
    assert not causes_too or back_causes == causes


def late_ranks(ahead=1_000_000, count=40):
    """Two ranks that leave all-reduces together; the clock of rank 1 is ahead, and it comes 300 ns late to each."""
    captures = []
    for shift, late in ((0, 0), (ahead, 300)):
        capture = Capture().gpu("H200")
        for k in range(count):
            at = 10_000 * k + shift
            capture.launch(at + 100, at + 200, 3 * k + 1).kernel(at + 1_000, at + 3_000 + late, 3 * k + 1)
            capture.launch(at + 300, at + 400, 3 * k + 2)
            capture.communication(at + 3_000 + late, at + 5_000 + (k % 3), correlation=3 * k + 2)
        captures.append(capture)
    return captures


def ends(timeline):
    """When each collective in which all wait for all ended on every rank."""
    found = defaultdict(list)
    for each in timeline.of("traceanalyzer.collective"):
        if each["name"] in ALL_WAIT and "ordinal" in each["args"]:
            found[each["args"]["group"], each["args"]["ordinal"]].append(each["ts"] + each["dur"])
    return [instants for instants in found.values() if len(instants) > 1]


def test_all_reduces_of_ranks_whose_clocks_differ_end_together(tmp_path):
    store = store_of(tmp_path / "s.duckdb", *late_ranks())
    timeline = exported(store, tmp_path / "t.json")
    assert len(ends(timeline)) == 40 and all(a == b for a, b in ends(timeline))
    apart = exported(store, tmp_path / "n.json", align="none")
    assert {abs(b - a) for a, b in ends(apart)} == {1_000_000}
    clock = timeline.about["traceanalyzer"]["clock"]
    assert [(r["rank"], r["offset_ns"], r["placed_by"]) for r in clock["ranks"]] == [
        (0, 0, "as recorded"),
        (1, 1_000_000, "ends of collectives"),
    ]
    assert apart.about["traceanalyzer"]["clock"]["ranks"][1]["placed_by"] == "as recorded"


def test_read_back_without_alignment_ranks_wait_as_before(tmp_path):
    store = store_of(tmp_path / "s.duckdb", *late_ranks())
    exported(store, tmp_path / "t.json")
    with traceanalyzer.open(store) as traces:
        before = traces.collectives(top=0).collectives
    with ingested(tmp_path / "back", tmp_path / "t.json") as back:
        after = back.collectives(top=0, align="none").collectives
        assert [(r["rank"], r["offset_ns"]) for r in back.collectives(align="none").clocks.rows()] == [(0, 0), (1, 0)]
    names = ("rank", "ordinal", "kind", "elements", "duration_ns", "wait_ns", "last_rank")
    told = [sorted(tuple(row[n] for n in names) for row in each.rows()) for each in (before, after)]
    assert told[0] == told[1] and {row[5] for row in told[0]} == {0, 300}


@pytest.mark.parametrize("name", ["ddp2_slow1", "ddp2_healthy"])
def test_ends_of_real_collectives_agree_within_the_residual(store_of_files, tmp_path, name):
    files = ranks(TRACES / name)
    if name == "ddp2_slow1":
        files = ranks(SAMPLES / name, "rank{}.stack.json.gz")
    elif not TRACES.is_dir():
        pytest.skip(MISSING)
    with store_of_files(files) as traces:
        traces.export_timeline(tmp_path / "t.json.gz")
        residual = {r["residual_p95_ns"] for r in traces.collectives().clocks.rows()}
    timeline = Timeline(tmp_path / "t.json.gz")
    said = {r["residual_p95_ns"] for r in timeline.about["traceanalyzer"]["clock"]["ranks"]}
    assert said == residual
    spread = [max(instants) - min(instants) for instants in ends(timeline)]
    # Starts and ends are rounded to whole nanoseconds on the way.
    assert len(spread) > 20 and np.percentile(spread, 95) <= max(residual) + 2


def test_ranks_of_equal_pids_and_device_numbers_are_told_apart(tmp_path):
    store = store_of(tmp_path / "s.duckdb", *late_ranks())
    timeline = exported(store, tmp_path / "t.json")
    header = timeline.about["traceanalyzer"]
    assert [(p["rank"], p["recorded_pid"]) for p in header["processes"]] == [(0, 100), (1, 100)]
    assert len({p["pid"] for p in header["processes"]} | {d["pid"] for d in header["devices"]}) == 4
    assert [(d["rank"], d["recorded_device"], d["device"]) for d in header["devices"]] == [(0, 0, 0), (1, 0, 1)]
    with traceanalyzer.open(store) as traces, ingested(tmp_path / "back", tmp_path / "t.json") as back:
        devices, back_devices = times(traces)[0], times(back)[0]
        launches = list(
            back.sql("SELECT rank, count(launch_event_id) FROM gpu_ops GROUP BY ALL ORDER BY 1").rows.rows()
        )
        ranks_of_events = {row["rank"] for row in back.sql("SELECT DISTINCT rank FROM cpu_events").rows.rows()}
    assert [row[:1] + row[2:] for row in devices] == [row[:1] + row[2:] for row in back_devices]
    assert [tuple(row.values()) for row in launches] == [(0, 80), (1, 80)] and ranks_of_events == {0, 1}


def test_waits_have_arrows_to_who_came_last(tmp_path):
    timeline = exported(store_of(tmp_path / "s.duckdb", *late_ranks()), tmp_path / "t.json")
    waits = timeline.of("traceanalyzer.wait")
    assert len(waits) == 40 and {w["dur"] for w in waits} == {300} and {w["name"] for w in waits} == {"wait for rank 1"}
    arrows = [(a, b) for a, b in timeline.arrows if a["cat"] == "traceanalyzer.wait"]
    devices = {d["pid"]: d["rank"] for d in timeline.about["traceanalyzer"]["devices"]}
    assert len(arrows) == 40
    for wait, last in arrows:
        assert (devices[wait["pid"]], devices[last["pid"]]) == (0, 1)
        assert last["ts"] == wait["ts"] + wait["dur"]
    transfers = timeline.of("traceanalyzer.transfer")
    whole = timeline.of("traceanalyzer.collective")
    assert sum(t["dur"] for t in transfers) + 40 * 300 == sum(c["dur"] for c in whole)
    alone = exported(tmp_path / "s.duckdb", tmp_path / "one.json", rank="0")
    assert len(alone.of("traceanalyzer.wait")) == 40 and {a["cat"] for a, _ in alone.arrows} == {"cuda_runtime"}


def test_launches_have_arrows_to_their_operations(tmp_path):
    timeline = exported(store_of(tmp_path / "s.duckdb", *late_ranks()), tmp_path / "t.json")
    arrows = [(a, b) for a, b in timeline.arrows if a["cat"] == "cuda_runtime"]
    assert len(arrows) == 160
    assert all(a["args"]["correlation"] == b["args"]["correlation"] for a, b in arrows)


def crowded():
    """A store's capture with everything that viewers choke on."""
    capture = Capture().gpu(HOSTILE).thread(100, 1, HOSTILE)
    capture.event(EventKind.STEP_MARK, "ProfilerStep#3", 0, 500)
    capture.event(EventKind.OPERATOR, HOSTILE, 10, 100).event(EventKind.PYTHON_FRAME, "a.py(1): f", 50, 150)
    capture.event(EventKind.PYTHON_FRAME, "a.py(2): g", 60, 170).event(EventKind.RANGE, "x", 60, 60)
    capture.event(EventKind.RANGE, "same", 10, 100).event(EventKind.OVERHEAD, "Buffer Flush", 20, 30, thread=None)
    capture.event(EventKind.MARK, "m", 5, 5, thread=None).event(EventKind.OS_CALL, "read", 200, 210)
    capture.launch(110, 120, 1).launch(120, 120, 2).launch(130, 140, 3).launch(150, 160, 4)
    capture.kernel(150, 200, 1, name=HOSTILE).kernel(190, 260, 2).kernel(250, 300, 3).kernel(300, 300, 4)
    capture.kernel(400, 420, None, stream=None).kernel(420, 430, 4, stream=9)
    capture.metric("SMs Active", (100, 1.5), (200, None), (300, float("nan")), (400, 2.0))
    return capture.memory(120, 64, 1, total=64, reserved=128)


def test_what_crosses_or_overlaps_stands_on_rows_below(tmp_path):
    timeline = exported(store_of(tmp_path / "s.duckdb", crowded()), tmp_path / "t.json")
    tracks = defaultdict(list)
    for event in timeline.slices:
        tracks[event["cat"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    kernels = {tid: spans for (cat, tid), spans in tracks.items() if cat == "kernel"}
    apart = timeline.about["traceanalyzer"]["lanes_apart"]
    assert kernels[7] == [(150, 200), (250, 300), (300, 300)] and kernels[7 + apart] == [(190, 260)]
    assert kernels[9] == [(420, 430)] and len(kernels) == 4
    assert tracks["python_function", 1 + apart] == [(50, 150)] and tracks["python_function", 1 + 2 * apart] == [
        (60, 170)
    ]
    with ingested(tmp_path / "back", tmp_path / "t.json") as back:
        found = back.sql("SELECT DISTINCT thread FROM cpu_events WHERE kind = 'python_frame'").rows.rows()
        assert [row["thread"] for row in found] == [1]
        kinds = {row["kind"] for row in back.sql("SELECT DISTINCT kind FROM cpu_events").rows.rows()}
        owner = back.sql("SELECT DISTINCT process FROM cpu_events WHERE kind = 'overhead'").rows.rows()
        assert [row["process"] for row in owner] == [100]
    assert kinds == {"step_mark", "operator", "range", "python_frame", "overhead", "mark", "os_call", "api_call"}


def test_hostile_names_survive(tmp_path):
    timeline = exported(store_of(tmp_path / "s.duckdb", crowded()), tmp_path / "t.json")
    assert {e["name"] for e in timeline.of("cpu_op")} == {HOSTILE} == {timeline.of("kernel")[0]["name"]}
    names = {e["name"]: e["args"] for e in timeline.events if e["ph"] == "M"}
    assert any(HOSTILE in str(e["args"].get("name")) for e in timeline.events if e["name"] == "process_name")
    assert set(names) == {"process_name", "process_labels", "process_sort_index", "thread_name", "thread_sort_index"}
    with ingested(tmp_path / "back", tmp_path / "t.json") as back:
        assert HOSTILE in {row["name"] for row in back.sql("SELECT name FROM gpu_ops").rows.rows()}


def test_counters_are_the_known_samples(tmp_path):
    timeline = exported(store_of(tmp_path / "s.duckdb", crowded()), tmp_path / "t.json")
    counters = [(e["name"], e["ts"], e["args"]) for e in timeline.events if e["ph"] == "C"]
    assert sorted(counters, key=str) == [
        ("SMs Active [%]", 100, {"value": 1.5}),
        ("SMs Active [%]", 400, {"value": 2.0}),
        ("allocator [B]", 120, {"allocated": 64, "reserved": 128}),
    ]


def test_gaps_carry_cause_blame_and_stack_and_add_up(store_of_files, tmp_path):
    files = ranks(SAMPLES / "ddp2_slow1", "rank{}.stack.json.gz")
    with store_of_files(files) as traces:
        traces.export_timeline(tmp_path / "t.json")
        answer = traces.gaps(top=0)
        steps = traces.steps(top=0).steps
    timeline = Timeline(tmp_path / "t.json")
    rank_of = {d["pid"]: d["rank"] for d in timeline.about["traceanalyzer"]["devices"]}
    sums = defaultdict(int)
    blamed = defaultdict(int)
    for gap in timeline.of("traceanalyzer.gap"):
        sums[rank_of[gap["pid"]], gap["args"]["cause"]] += gap["dur"]
        blamed[rank_of[gap["pid"]], gap["args"].get("blame")] += gap["dur"]
    assert sums == {(r["rank"], r["cause"]): r["idle_ns"] for r in answer.causes.rows()}
    assert blamed == {(r["rank"], r["blame"]): r["idle_ns"] for r in answer.blames.rows()}
    sleeping = [g for g in timeline.of("traceanalyzer.gap") if "load_extra_batch" in g["name"]]
    assert sleeping and all("load_extra_batch (ranks.py:51)" in g["args"]["stack"] for g in sleeping)
    told = {(rank_of[s["pid"]], s["args"]["step"], s["dur"]) for s in timeline.of("traceanalyzer.step")}
    assert told == {(r["rank"], r["step"], r["device_duration_ns"]) for r in steps.rows() if r["device_duration_ns"]}


def test_steps_and_windows_cut_the_timeline(store_of_files, tmp_path):
    files = [SAMPLES / "planted_sleep" / "torch.stack.json.gz"]
    with store_of_files(files) as traces:
        number = sorted(r["step"] for r in traces.steps().steps.rows())[1]
        traces.export_timeline(tmp_path / "step.json", steps=str(number))
        traces.export_timeline(tmp_path / "window.json", window="0.01:0.03")
        (window,) = traces.gaps(window="0.01:0.03").devices.rows()
        (step,) = traces.gaps(steps=str(number)).devices.rows()
    timeline = Timeline(tmp_path / "step.json")
    assert {s["args"]["step"] for s in timeline.of("traceanalyzer.step")} == {number}
    assert timeline.about["traceanalyzer"]["selection"]["steps"] == [number, number]
    operations = [e for e in timeline.slices if e["cat"] in ("kernel", "gpu_memcpy", "gpu_memset")]
    assert len(operations) == step["n_ops"]
    assert {e["name"] for e in timeline.slices if e["name"].startswith("ProfilerStep")} >= {f"ProfilerStep#{number}"}
    linked = [b for a, b in timeline.arrows if a["cat"].startswith("cuda_")]
    assert len(linked) == step["n_ops"]  # the launches are in it, though the host runs ahead
    Timeline(tmp_path / "window.json")
    with ingested(tmp_path / "back", tmp_path / "window.json") as back:
        (again,) = back.gaps().devices.rows()
    assert {name: again[name] for name in DEVICES} == {name: window[name] for name in DEVICES}


@pytest.mark.parametrize("steps", ["5-5", "4-5"])
def test_read_back_steps_have_all_but_the_gap_before_the_first_operation(store_of_files, tmp_path, steps):
    with store_of_files([SAMPLES / "planted_sleep" / "torch.stack.json.gz"]) as traces:
        answer = traces.export_timeline(tmp_path / "t.json", steps=steps)
        gaps = traces.gaps(steps=steps, top=0)
        (before,), (first, *_) = gaps.devices.rows(), sorted(gaps.gaps.rows(), key=lambda row: row["start_ns"])
        lost = defaultdict(int)
        for piece in traces.sql("SELECT gap, cause, start_ns, end_ns FROM gap_pieces", steps=steps, top=0).rows.rows():
            if piece["gap"] == first["gap"]:
                lost[piece["cause"]] += piece["end_ns"] - piece["start_ns"]
        causes = {row["cause"]: row["idle_ns"] for row in gaps.causes.rows()}
    with ingested(tmp_path / "back", tmp_path / "t.json") as back:
        again = back.gaps(top=0)
        (after,) = again.devices.rows()
        back_causes = {row["cause"]: row["idle_ns"] for row in again.causes.rows()}
        device_steps = {r["step"] for r in back.steps(top=0).steps.rows() if r["device_duration_ns"]}
    assert first["start_ns"] == before["start_ns"] and sum(lost.values()) == first["duration_ns"] > 1_000
    assert before["idle_ns"] - after["idle_ns"] == first["duration_ns"] and before["n_gaps"] - after["n_gaps"] == 1
    assert all(before[name] == after[name] for name in DEVICES if name not in ("span_ns", "idle_ns", "n_gaps"))
    assert back_causes == {cause: ns - lost[cause] for cause, ns in causes.items() if ns > lost[cause]}
    low, high = map(int, steps.split("-"))
    assert device_steps == set(range(low, high + 1))
    (note,) = [note for note in answer.notes if note.startswith("read back")]
    assert f"{format_value(first['duration_ns'], Unit.NS)} of 1 device" in note


def test_the_same_timeline_is_the_same_file_in_batches_of_any_size(tmp_path, monkeypatch):
    store = store_of(tmp_path / "s.duckdb", *late_ranks())
    exported(store, tmp_path / "a.json.gz")
    exported(store, tmp_path / "b.json.gz")
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()
    for module in (stream, derived, communication):
        monkeypatch.setattr(module, "BATCH_ROWS", 7)
    timeline = exported(store, tmp_path / "c.json")
    as_text = [
        sorted(json.dumps(e, sort_keys=True) for e in t.events) for t in (Timeline(tmp_path / "a.json.gz"), timeline)
    ]
    assert as_text[0] == as_text[1]


def test_times_stay_exact_far_from_zero(tmp_path):
    base = 1_700_000_000_123_456_789
    capture = Capture().kernel(base + 1, base + 4).kernel(base + 1_000_001, base + 1_000_999)
    timeline = exported(store_of(tmp_path / "s.duckdb", capture), tmp_path / "t.json")
    assert [(k["ts"], k["dur"]) for k in timeline.of("kernel")] == [(0, 3), (1_000_000, 998)]
    assert timeline.about["traceanalyzer"]["clock"]["origin_ns"] == base + 1
    assert timeline.about["baseTimeNanoseconds"] == 0  # the time of day is not known
    assert '"ts":1000.000,"dur":0.998' in timeline.text


def test_telemetry_is_on_the_clock_of_the_trace(tmp_path):
    if not TRACES.is_dir():
        pytest.skip(MISSING)
    folder = TRACES / "telemetry" / "with_trace"
    with TraceSet.of_files(sorted(f for f in folder.iterdir() if f.suffix in (".gz", ".csv", ".txt"))) as traces:
        answer = traces.export_timeline(tmp_path / "t.json.gz")
        rows = list(traces.metrics().alignment.rows())
    timeline = Timeline(tmp_path / "t.json.gz")
    counters = {e["name"] for e in timeline.events if e["ph"] == "C"}
    known = any(row["offset_ns"] is not None for row in rows)
    assert known and any(name.startswith("utilization") for name in counters), (counters, answer.warnings)


def test_a_file_is_replaced_only_when_told_and_never_half_written(tmp_path, monkeypatch):
    store = store_of(tmp_path / "s.duckdb", *late_ranks())
    target = tmp_path / "t.json"
    target.write_text("mine")
    with traceanalyzer.open(store) as traces:
        with pytest.raises(UsageError, match="--force"):
            traces.export_timeline(target)

        def fails(*_arguments):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch, pytest.raises(ExportError, match="No space left"):
            patch.setattr(write, "write_steps_and_gaps", fails)
            traces.export_timeline(target, force=True)
        assert target.read_text() == "mine" and not list(tmp_path.glob(".t.json*"))
        assert traces.sql("SELECT 1 AS one").rows
        traces.export_timeline(target, force=True)
    assert Timeline(target).slices


@pytest.mark.parametrize("name", ["t.parquet", "t.csv", "t.zip", "t.html"])
def test_a_name_of_another_format_is_refused(tmp_path, name):
    store = store_of(tmp_path / "s.duckdb", Capture().kernel(0, 1))
    with traceanalyzer.open(store) as traces, pytest.raises(UsageError, match=r"json\.gz"):
        traces.export_timeline(tmp_path / name)
    assert not (tmp_path / name).exists()


def test_what_has_no_timeline_or_several_clocks_is_refused(tmp_path):
    store = store_of(tmp_path / "s.duckdb", Capture().kernel(0, 1), run="one")
    store_of(store, Capture().kernel(0, 1), run="two")
    with traceanalyzer.open(store) as traces:
        with pytest.raises(UsageError, match="no common clock"):
            traces.export_timeline(tmp_path / "t.json", run="all")
        with pytest.raises(UsageError, match="folder"):
            traces.export_timeline(tmp_path)
        with pytest.raises(UsageError, match="nothing was recorded"):
            traces.export_timeline(tmp_path / "t.json", window="5:6")
    with TraceSet.of_files([SAMPLES / "kernel_limits" / "raw.csv.gz"]) as traces, pytest.raises(UsageError):
        traces.export_timeline(tmp_path / "t.json")
    assert not (tmp_path / "t.json").exists()


@pytest.mark.parametrize(
    "header",
    [
        "1",
        '{"processes":[]}',
        '{"processes":[{"pid":"x"},7,{"pid":5,"rank":-3}],"devices":[{"pid":1,"process":9},null]}',
        '{"processes":[{"pid":5,"rank":99999999999}],"devices":{},"lanes_apart":-4}',
        '{"processes":[{"pid":5,"rank":0,"name":[1]}],"lanes_apart":0}',
    ],
)
def test_a_header_that_makes_no_sense_is_no_obstacle(tmp_path, header):
    events = (
        '{"ph":"X","cat":"kernel","name":"k","pid":1,"tid":7,"ts":1,"dur":2,"args":{"device":0,"stream":7}},'
        '{"ph":"X","cat":"cpu_op","name":"o","pid":5,"tid":6,"ts":1,"dur":2},'
        '{"ph":"C","name":"c","pid":5,"ts":1,"args":{"v":1}}'
    )
    (tmp_path / "t.json.gz").write_bytes(
        gzip.compress(f'{{"traceanalyzer":{header},"traceEvents":[{events}]}}'.encode())
    )
    with ingested(tmp_path / "back", tmp_path / "t.json.gz") as back:
        (device,) = back.gaps().devices.rows()
    assert (device["span_ns"], device["n_ops"]) == (2_000, 1)
