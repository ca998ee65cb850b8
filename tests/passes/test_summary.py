"""Summary: parts worked out by hand, and TensorBoard's split beside a slow reading of the same events.

That the parts of every own capture add up to its device steps is part of `test_conservation`.
"""

import functools
import json

import pytest

import traceanalyzer
from tests.support.real_traces import MISSING, PUBLIC, SHARED, TRACES, opened, rows, title
from tests.support.slow_tensorboard import FAULTS, SlowPlugin
from tests.support.slow_torch import read
from tests.support.store_builder import Capture, store_of
from traceanalyzer.cli.main import run
from traceanalyzer.errors import UsageError
from traceanalyzer.passes.causes import Cause
from traceanalyzer.passes.parts import IDLE_PARTS, part_of
from traceanalyzer.schema.kinds import CopyKind, EventKind

US = 1_000


def asked(tmp_path, *captures, **selection):
    with traceanalyzer.open(store_of(tmp_path / "s.duckdb", *captures)) as traces:
        return traces.summary(**selection)


def parts(answer, column="ns", **where):
    return {row["part"]: row[column] for row in rows(answer, "summary", **where)}


def test_every_cause_of_the_device_lane_is_in_one_part():
    found = [cause for causes in IDLE_PARTS.values() for cause in causes]
    assert sorted(found) == sorted(set(Cause) - {Cause.COMMUNICATION_ONLY, Cause.COPY_ONLY})
    # The table of verdicts, by hand.
    assert part_of("idle:input_wait") == "idle:input"
    host = ("python", "range", "os_blocked", "gil_wait", "garbage_collection", "outside_events")
    assert {part_of(f"idle:{cause}") for cause in host} == {"idle:host"}
    launch = ("framework", "api_call", "launch_call", "launch_latency")
    assert {part_of(f"idle:{cause}") for cause in launch} == {"idle:launch"}
    assert {part_of("idle:device_wait"), part_of("idle:device_gap")} == {"idle:dependency"}
    assert part_of("communication_wait") == "communication_wait"


def two_steps():
    """A kernel in flight to 0, and two steps of 100 us: Python 30, a launch of 10 and 5 on its way, a kernel of 40;
    then a copy of 15 on another stream, beside which a kernel of 5 runs at its beginning."""
    capture = Capture().kernel(-50 * US, 0)
    for number in range(2):
        t = number * 100 * US
        capture.event(EventKind.STEP_MARK, f"ProfilerStep#{number}", t, t + 100 * US)
        capture.event(EventKind.PYTHON_FRAME, "train.py(3): prepare", t, t + 30 * US)
        capture.launch(t + 30 * US, t + 40 * US, 3 * number + 1)
        capture.kernel(t + 45 * US, t + 85 * US, 3 * number + 1)
        capture.launch(t + 50 * US, t + 51 * US, 3 * number + 2).kernel(t + 85 * US, t + 90 * US, 3 * number + 2)
        capture.launch(t + 52 * US, t + 53 * US, 3 * number + 3, "cudaMemcpyAsync")
        capture.copy(t + 85 * US, t + 100 * US, 3 * number + 3, CopyKind.HTOD, stream=9)
    return capture


def test_parts_of_steps_by_hand(tmp_path):
    answer = asked(tmp_path, two_steps())
    # Both steps are 100 us long: the first begins with the gap after the kernel in flight.
    assert parts(answer) == {
        "compute": 90 * US,
        "idle:host": 60 * US,
        "idle:launch": 30 * US,
        "copy": 20 * US,
    }
    assert parts(answer, "per_step_ns")["idle:host"] == 30 * US
    assert parts(answer, "share") == {"compute": 0.45, "idle:host": 0.3, "idle:launch": 0.15, "copy": 0.1}
    assert parts(answer, "categories")["idle:launch"] == "launch_call, launch_latency"
    assert [finding.text for finding in answer.findings] == [
        "rank 0, device 0: a step of 100.000 us (2 counted steps) is 45.0 % compute (45.000 us), 30.0 % idle for the"
        " host program (30.000 us), 15.0 % idle between launches (15.000 us) and 10.0 % copies that nothing hides"
        " (10.000 us)",
        "rank 0, device 0: 50.000 us of the span lie outside of all device steps, and in no part;"
        " `traceanalyzer ledger` has them without a step",
    ]
    with traceanalyzer.open(tmp_path / "s.duckdb") as traces:
        assert sum(parts(traces.summary(steps="1")).values()) == 100 * US


def test_without_steps_the_parts_are_of_the_span(tmp_path):
    capture = Capture().launch(0, 5 * US, 1).kernel(10 * US, 20 * US, 1).launch(30 * US, 35 * US, 2)
    answer = asked(tmp_path, capture.kernel(50 * US, 60 * US, 2))
    # Of the gap from 20 to 50: nothing recorded for 10, the launch 5, on its way 15.
    assert parts(answer) == {"compute": 20 * US, "idle:launch": 20 * US, "idle:host": 10 * US}
    assert set(parts(answer, "per_step_ns").values()) == {None}


def syncing(calls):
    """A step of 100 us with so many kernels of 10 us, each waited for by a call that ends with it; the next is launched
    2 us later, by a call of 3."""
    capture = Capture().kernel(-10 * US, 0)
    for number in range(2):
        t = number * 100 * US
        capture.event(EventKind.STEP_MARK, f"ProfilerStep#{number}", t, t + 100 * US)
        for k in range(calls):
            at, key = t + 15 * US * k, number * calls + k + 1
            capture.launch(at + 2 * US, at + 5 * US, key).kernel(at + 5 * US, at + 15 * US, key)
            capture.event(EventKind.API_CALL, "cudaStreamSynchronize", at + 6 * US, at + 15 * US + 1)
    return capture


@pytest.mark.parametrize(("calls", "part"), [(2, "idle:launch"), (3, "idle:sync")])
def test_refill_is_of_synchronisation_where_more_than_two_calls_a_step_block(tmp_path, calls, part):
    found = asked(tmp_path, syncing(calls))
    launched = "refill" if part == "idle:sync" else "launch_call"
    assert launched in parts(found, "categories")[part].split(", ")
    # Every gap but the very first one has a launch of 3 us after a call that blocked until its beginning.
    refill = 3 * US * (2 * calls - 1)
    whole = parts(found)
    if part == "idle:sync":
        # ... and 1 ns in which the call still returns.
        assert whole[part] == refill + (2 * calls - 1)
        assert whole["idle:launch"] == 3 * US
    else:
        assert whole[part] == refill + 3 * US
    with traceanalyzer.open(tmp_path / "s.duckdb") as traces:
        stepped = sum(row["ns"] for row in traces.ledger().ledger.rows() if row["step"] is not None)
    assert sum(whole.values()) == stepped


def tensorboard_capture():
    """Two steps of 100 us. In each an operator of 50, in it a call of 10 that launches a kernel of 30, 60 us after the
    step began; a DataLoader's annotation of 20 behind it. The kernel of the second step ends 20 us after its mark."""
    capture = Capture()
    for number, late in ((0, 0), (1, 30)):
        t = number * 100 * US
        capture.event(EventKind.STEP_MARK, f"ProfilerStep#{number}", t, t + 90 * US)
        capture.event(EventKind.OPERATOR, "aten::mm", t, t + 50 * US)
        capture.launch(t + 10 * US, t + 20 * US, number + 1)
        capture.kernel(t + (60 + late) * US, t + (90 + late) * US, number + 1)
        name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
        capture.event(EventKind.RANGE, name, t + 50 * US, t + 70 * US)
        capture.communication(t + 80 * US, t + 88 * US)
    return capture


def test_the_split_of_tensorboard_by_hand(tmp_path):
    answer = asked(tmp_path, tensorboard_capture(), split="tensorboard")
    # Step 0 is [0, 90), step 1 [100, 220): it lasts as long as the kernel that was launched in it.
    assert parts(answer) == {
        "Kernel": 60 * US,
        "Memcpy": 0,
        "Memset": 0,
        "Communication": 8 * US,  # that of step 0 runs beside its kernel
        "Runtime": 20 * US,
        "DataLoader": 30 * US,
        "CPU Exec": 80 * US,
        "Other": 12 * US,
    }
    assert parts(answer, "per_step_ns")["Kernel"] == 30 * US
    with traceanalyzer.open(tmp_path / "s.duckdb") as traces:
        first = traces.summary(split="tensorboard", steps="0")
        assert sum(parts(first).values()) == 90 * US
        with pytest.raises(UsageError, match="--window"):
            traces.summary(split="tensorboard", window="0:1")
        with pytest.raises(UsageError, match="--as plain: give ledger, tensorboard"):
            traces.summary(split="plain")


def test_trailing_steps_without_their_device_work_are_left_out(tmp_path):
    capture = tensorboard_capture().event(EventKind.STEP_MARK, "ProfilerStep#2", 300 * US, 400 * US)
    assert {row["n_steps"] for row in asked(tmp_path, capture, split="tensorboard").summary.rows()} == {2}


def test_the_command_prints_either_split(tmp_path, capsys):
    store = store_of(tmp_path / "s.duckdb", two_steps())
    assert run(["summary", "--db", str(store), "--as", "tensorboard", "--format", "csv"]) == 0
    assert "Kernel,90000," in capsys.readouterr().out
    assert run(["summary", "--db", str(store), "--format", "csv"]) == 0
    assert "idle:host,60000,0.3,30000,2,python" in capsys.readouterr().out
    assert run(["summary", "--db", str(store), "--as", "tensorboard", "--window", "0:1"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


RIGHT = [PUBLIC / "torch" / f"{name}.json.gz" for name in ("kineto_2021_computeprops", "hta_gloo_300ranks_cpu")]
"""Public traces of which the plugin is right, faults and all."""
WRONG = [
    *sorted(path for path in TRACES.glob("*/*.json.gz") if path.stat().st_size < 60_000),
    *(TRACES / name for name in ("ddp2_healthy/rank0.json.gz", "dataloader_workers2/torch.json.gz")),
    *(
        PUBLIC / "torch" / f"{name}.json.gz"
        for name in ("tutorial_window_a", "hta_128ranks_r0", "tl_h100_modules_small")
    ),
]
"""Traces whose calls the plugin does not know."""
READABLE = [path for path in (*RIGHT, *WRONG) if path.exists()]
CASES = SHARED / "notes" / "torch_cases.json"


@functools.cache
def slow(path, faults=frozenset()):
    return SlowPlugin(read(path), faults)


@pytest.mark.parametrize("path", READABLE, ids=title)
def test_the_split_of_real_traces_is_that_of_the_slow_oracle(path):
    with opened(path) as traces:
        answer = traces.summary(split="tensorboard")
    exact = slow(path)
    assert parts(answer) == exact.split
    assert {row["n_steps"] for row in answer.summary.rows()} == {exact.n_steps}
    if path in RIGHT:
        assert slow(path, FAULTS).split == exact.split
        return
    # The plugin differs, and each difference is one of its faults.
    plugin = slow(path, FAULTS)
    assert plugin.split["Runtime"] == 0 < exact.split["Runtime"]  # it does not know calls of today's categories
    loader = slow(path, FAULTS - {"annotations"}).split["DataLoader"]
    assert plugin.split["DataLoader"] == 0
    assert (loader > 0) == (path.parent.name.startswith("dataloader")) or exact.split["DataLoader"] == 0


PLUGIN = PUBLIC / "torch" / "kineto_2021_resnet50_stack_mem.json.gz"


@pytest.mark.skipif(not (PLUGIN.exists() and CASES.exists()), reason=MISSING)
def test_the_split_is_what_the_plugin_printed():
    cases = json.loads(CASES.read_text())["cases"]
    (printed,) = (c["value"] for c in cases if c["file"] in PLUGIN.name and "plugin" in c["question"])
    names = ("kernel", "memcpy", "memset", "communication", "runtime", "dataloader", "cpu_exec", "other")
    with opened(PLUGIN) as traces:
        answer = traces.summary(split="tensorboard")
    found = [row["per_step_ns"] / 1000 for row in answer.summary.rows()]
    assert found == pytest.approx([printed[name] for name in names], abs=0.001)
    assert sum(found) == pytest.approx(printed["total"], abs=0.01)
