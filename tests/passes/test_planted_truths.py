"""What was planted in our own captures is what `gaps` finds in them, as dear as it is by the definition.

`truth.json` says what was planted, and what a stop-watch on the host measured. What the definition makes of a trace is
worked out from its raw JSON in plain Python (`tests.support.slow_idle`), and compared to the nanosecond.
"""

import functools
import re
from collections import Counter

import pytest

from tests.support.real_traces import MISSING, TRACES, TRUTH, opened, rows
from tests.support.slow_idle import SlowTorch, clipped, measure, python_function
from tests.support.slow_torch import read

pytestmark = pytest.mark.skipif(not TRUTH, reason=MISSING)

MS = 1_000_000
SPEAKS = 5 * MS
"""Less idle time than this in a whole capture is nothing to speak of."""
PLANTED = {
    "planted_sleep": "torch.stack.json.gz",
    "cpu_preprocess": "torch.stack.json.gz",
    "dataloader_starved": "torch.stack.json.gz",
    "checkpoint_every_5": "torch.stack.json.gz",
    "inference_batches": "torch.stack.json.gz",
    "ddp2_slow1": "rank1.stack.json.gz",
    "ddp2_occasional": "rank0.stack.json.gz",
}
"""The capture with Python frames of the rank that something was planted on, for each workload."""
OWN_CODE = {"workloads.py", "ranks.py"}


@functools.cache
def asked(workload, name):
    """`gaps` of a capture, and how many Python samples with frames it has."""
    with opened(TRACES / workload / name) as traces:
        count = "SELECT count(node_id) AS n FROM samples WHERE kind = 'python'"
        return traces.gaps(), rows(traces.sql(count), "rows")[0]["n"]


@functools.cache
def slow(workload):
    """The planted capture of a workload, read slowly."""
    return SlowTorch(read(TRACES / workload / PLANTED[workload]))


def function(blame):
    """The function of a blame: a sample tells the line that ran, a recorded frame the first line of its function."""
    return re.sub(r" \(.*\.py:\d+\)$", "", blame) if blame else blame


def planted(workload):
    return TRUTH["workloads"][workload]["planted"]["function"]


def is_planted(workload):
    return lambda event: python_function(event) == planted(workload)


def is_own(event):
    return event["kind"] == "python_function" and event["name"].partition("(")[0] in OWN_CODE


def stop_watch_ns(workload, name, steps, first_mark):
    """Host time of the planted calls of some steps of a capture, and how many steps these are."""
    facts = TRUTH["workloads"][workload]["captures"][name]
    wanted = {step - first_mark + facts["first_step"] for step in steps}
    return sum(round(call["ms"] * MS) for call in facts["planted_calls"] if call["step"] in wanted)


def first_blame(workload, name, rank=None):
    where = {} if rank is None else {"rank": rank}
    return rows(asked(workload, name)[0], "blames", **where)[0]


@pytest.mark.parametrize("workload", PLANTED)
def test_the_planted_function_is_the_first_blame_and_as_dear_as_by_the_definition(workload):
    row, trace = first_blame(workload, PLANTED[workload]), slow(workload)
    assert function(row["blame"]) == planted(workload)
    steps = trace.counted_steps()
    open_before = trace.open_before_launch(is_planted(workload))
    by_definition = sum(open_before[step] for step in steps) / len(steps)
    assert row["gain_ns"] == pytest.approx(by_definition, rel=0.05)
    # The same with what the launches themselves take, and without what other frames inside own: to the nanosecond.
    exact = trace.innermost(is_own, is_planted(workload))
    assert row["idle_ns"] == sum(exact.values())
    assert row["gain_ns"] == round(sum(exact[step] for step in steps) / len(steps))
    assert row["n_steps"] == sum(exact[step] > 0 for step in steps)


@pytest.mark.parametrize("workload", PLANTED)
def test_the_planted_function_costs_what_a_stop_watch_on_the_host_measured(workload):
    name, trace = PLANTED[workload], slow(workload)
    steps = trace.counted_steps()
    watch = stop_watch_ns(workload, name, steps, trace.marks[0][2])
    # What the device does meanwhile is not idle: only a checkpoint and a loader run while it works on.
    calls = [e for events in trace.threads.values() for e in events if timed(workload, e)]
    begin = min(start for start, _, step in trace.marks if step in steps)
    busy = [op[:2] for op in trace.ops]
    overlap = sum(measure(clipped(busy, e["start"], e["end"])) for e in calls if e["start"] >= begin)
    cost = first_blame(workload, name)
    if workload == "dataloader_starved":  # what was measured is all of the loader, not the function alone
        cost = rows(asked(workload, name)[0], "causes", cause="input_wait")[0]
    assert 0.9 * (watch - overlap) / len(steps) <= cost["gain_ns"] <= 1.02 * watch / len(steps)
    assert overlap < 0.1 * watch or workload == "checkpoint_every_5"


def timed(workload, event):
    """Whether an event is what the stop-watch measured."""
    if workload == "dataloader_starved":
        return "enumerate(DataLoader)#" in event["name"]
    return is_planted(workload)(event)


FRAMES, PLAIN = "with Python frames", "without"
FIRST_CAUSES = {
    # "GPU idle about 10 ms a step while the main thread sleeps"; nothing is recorded of a sleep but the frames
    "planted_sleep": {FRAMES: {"python"}, PLAIN: {"outside_events"}},
    # "the GPU idles while the next small kernels are launched"
    "sync_item": {FRAMES: {"framework", "launch_call"}, PLAIN: {"framework", "launch_call"}},
    "big_sync_item": {FRAMES: {"framework", "launch_call"}},
    # "each gap is the host's launch cost"
    "launch_bound": {FRAMES: {"framework", "launch_call"}, PLAIN: {"framework", "launch_call"}},
    # "the main thread prepares each batch in tokenize_and_pad while the GPU idles"
    "cpu_preprocess": {FRAMES: {"python"}, PLAIN: {"outside_events"}},
    # "input-bound: enumerate(DataLoader) ..."
    "dataloader_starved": {FRAMES: {"input_wait"}, PLAIN: {"input_wait"}},
    # "input-bound: ... the main thread waits for the next batch while the GPU idles"
    "dataloader_workers2": {FRAMES: {"input_wait"}, PLAIN: {"input_wait"}},
    # "400 MiB of pageable host memory is copied each step, no kernel runs meanwhile": see the compute lane below; on
    # the device lane copies are no idle time, and what is left is the host between them
    "h2d_pageable": {FRAMES: {"python", "framework", "host_copy"}, PLAIN: {"framework", "host_copy"}},
    # "every 5th step the main thread writes the state dict to disk", in a range named checkpoint
    "checkpoint_every_5": {FRAMES: {"python"}, PLAIN: {"range"}},
    # "the main thread waits for the interpreter lock ... so launches come late"; torch records nothing of the lock, so
    # whatever is open on the main thread takes longer
    "gil_thread": {FRAMES: {"python"}, PLAIN: {"range"}},
    # "the GPU idles while the main thread waits in wait_for_request"
    "inference_batches": {FRAMES: {"python"}, PLAIN: {"outside_events"}},
    # "the host cannot launch its kernels fast enough"
    "amp_small_eager": {FRAMES: {"framework", "launch_call"}, PLAIN: {"framework", "launch_call"}},
    # "the GPU idles during cudaFree and the cudaMalloc calls of the next step"
    "alloc_churn": {FRAMES: {"memory_management"}, PLAIN: {"memory_management"}},
    # Nothing is planted on the host of these, or not of this rank: what idles is the host between launches, and on the
    # rank that starts late the profiler's own work.
    "ddp2_healthy": {PLAIN: {"framework", "launch_call"}},
    "ddp2_heavy1": {PLAIN: {"framework", "launch_call"}},
    "ddp2_slow1": {FRAMES: {"python"}, PLAIN: {"outside_events"}},
    "ddp2_occasional": {FRAMES: {"python"}, PLAIN: {"outside_events", "framework"}},
    "a2a2": {PLAIN: {"range", "framework", "profiler"}},
    # "host launch cost is near the GPU time; with stacks the profiler makes the host the limit"
    "fsdp2": {FRAMES: {"python"}, PLAIN: {"framework", "launch_call"}},
}
TORCH = sorted((p.parent.name, p.name) for p in TRACES.glob("*/*.json.gz") if p.parent.name != "telemetry")
NSYS = sorted((p.parent.name, p.name) for p in TRACES.glob("*/*.sqlite.gz") if p.stat().st_size < 3 << 20)
NSYS_PLANTED = [each for each in NSYS if each[0] in PLANTED]
REST = {"outside_events", "unattributed"}


@pytest.mark.parametrize(("workload", "name"), TORCH, ids=map("/".join, TORCH))
def test_the_first_cause_is_what_was_planted(workload, name):
    answer, _ = asked(workload, name)
    (device,) = rows(answer, "devices")
    stacks = "stack" in name
    if device["idle_ns"] <= SPEAKS:
        assert workload not in PLANTED
        return
    first = rows(answer, "causes")[0]
    assert first["cause"] in FIRST_CAUSES[workload][FRAMES if stacks else PLAIN]
    if stacks and workload != "amp_small_eager":
        rest = sum(row["idle_ns"] for row in rows(answer, "causes") if row["cause"] in REST)
        assert rest <= 0.05 * device["idle_ns"]


@pytest.mark.parametrize("name", ["torch.json.gz", "torch.stack.json.gz"])
def test_copies_of_pageable_memory_are_what_keeps_compute_from_running(name):
    path = TRACES / "h2d_pageable" / name
    with opened(path) as traces:
        answer = traces.gaps(lane="compute")
    (device,) = rows(answer, "devices")
    first = rows(answer, "causes")[0]
    # "with copies the GPU is about 98 percent busy, with kernels alone about 7 percent"
    assert first["cause"] == "copy_only"
    assert first["share"] > 0.9
    assert device["idle_share"] == pytest.approx(0.93, abs=0.03)
    assert rows(asked("h2d_pageable", name)[0], "devices")[0]["idle_share"] == pytest.approx(0.02, abs=0.01)


def of_planted_workload(workload, name):
    """The rank whose device has the planted idle time, None where there is but one; whether the capture is of it."""
    rank = TRUTH["workloads"][workload]["planted"].get("rank")
    return rank, rank is None or f"rank{1 - rank}" not in name


@pytest.mark.parametrize(("workload", "name"), NSYS_PLANTED, ids=map("/".join, NSYS_PLANTED))
def test_the_planted_function_is_the_first_blame_of_samples_too(workload, name):
    answer, samples = asked(workload, name)
    rank, mine = of_planted_workload(workload, name)
    if not samples:
        # No frames were recorded, so nothing can name the function: a range or nothing is blamed.
        assert not any(str(row["blame"]).endswith(")") for row in rows(answer, "blames"))
        return
    if not mine:
        assert planted(workload) not in {function(row["blame"]) for row in rows(answer, "blames")}
        return
    row = first_blame(workload, name, rank)
    assert function(row["blame"]) == planted(workload)
    assert row["cause"] in {"os_blocked", "python", "input_wait"}
    if workload in {"dataloader_starved", "checkpoint_every_5"}:  # measured is something larger; the device works on
        return
    facts = TRUTH["workloads"][workload]["captures"][name]
    facts = facts if rank is None else facts.get(f"rank{rank}", facts)
    calls = facts["planted_calls"][1 if workload != "ddp2_occasional" else 0 :]  # the first step is incomplete
    watch = sum(call["ms"] for call in calls) * MS / (facts["steps"] - 1)
    # A sample stands to the next one, so that up to two periods of a millisecond after a call count for it.
    assert 0.9 * watch <= row["gain_ns"] <= watch + 2 * MS * len(calls) / (facts["steps"] - 1)


IN_CALLS = "the launches are API calls, of which samples tell nothing: the range around them is blamed for them"
BACKTRACES = "a backtrace at each memory call makes the cudaMalloc calls of forward dear, and steps longer"
LAUNCHES, MEMORY = {"launch_call", "launch_latency"}, {"memory_management"}
OTHER_FIRST = {
    ("launch_bound", "nsys.sqlite.gz"): ("forward", LAUNCHES, "many_tiny_pointwise", "many_tiny_pointwise", IN_CALLS),
    ("sync_item", "nsys.sqlite.gz"): ("group", LAUNCHES, "small_kernel_group", "small_kernel_group", IN_CALLS),
    ("alloc_churn", "nsys.sqlite.gz"): ("forward", MEMORY, "forward", "release_cached_memory", BACKTRACES),
}
"""Captures of which nsys blames something else than torch: the range and what it is blamed for, the first function of
nsys and of torch, and why."""


def first_functions(workload, name):
    """The first blamed function of each device with idle time to speak of, by rank."""
    idle = {row["rank"]: row["idle_ns"] for row in rows(asked(workload, name)[0], "devices")}
    return {rank: function(first_blame(workload, name, rank)["blame"]) for rank, ns in idle.items() if ns > SPEAKS}


@pytest.mark.parametrize(("workload", "name"), NSYS, ids=map("/".join, NSYS))
def test_torch_and_nsys_blame_the_same_function_first(workload, name):
    torch = [n for w, n in TORCH if w == workload and "stack" in n]
    if not asked(workload, name)[1] or not torch:
        assert (workload, name) not in OTHER_FIRST
        return
    by_torch = {rank: blame for n in torch for rank, blame in first_functions(workload, n).items()}
    by_nsys = first_functions(workload, name)
    shared = by_torch.keys() & by_nsys.keys()
    if (workload, name) not in OTHER_FIRST:
        assert {rank: by_nsys[rank] for rank in shared} == {rank: by_torch[rank] for rank in shared}
        return
    around, causes, first, first_of_torch, why = OTHER_FIRST[workload, name]
    assert (by_nsys, by_torch) == ({0: around}, {0: first_of_torch})
    # It really is so: most of what the range is blamed for are pieces in calls and from launches on, and what is
    # charged to functions, whichever of their lines a sample met, is charged to that one first.
    answer, _ = asked(workload, name)
    stacks = rows(answer, "stacks", blame=around)
    assert sum(s["idle_ns"] for s in stacks if s["cause"] in causes) > 0.7 * sum(s["idle_ns"] for s in stacks)
    charged = Counter()
    for row in rows(answer, "blames"):
        if str(row["blame"]).endswith(")"):
            charged[function(row["blame"])] += row["idle_ns"]
    assert charged.most_common(1)[0][0] == first
    if why is BACKTRACES:
        captures = TRUTH["workloads"][workload]["captures"]
        assert captures[name]["mean_step_ms"] > 1.2 * captures["torch.stack.json.gz"]["mean_step_ms"]
