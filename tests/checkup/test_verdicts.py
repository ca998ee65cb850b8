"""The check-up of real captures: what was planted comes first, costs add up, commands show what they are said to."""

import functools
import json
import shlex
from collections import defaultdict

import pytest
from click.testing import CliRunner

from tests.support.real_traces import MISSING, TRACES, TRUTH
from traceanalyzer.cli.main import root
from traceanalyzer.traceset import TraceSet

pytestmark = pytest.mark.skipif(not TRUTH, reason=MISSING)

TORCH, STACK, NSYS = "torch.json.gz", "torch.stack.json.gz", "nsys.sqlite.gz"
PLANTED = {
    ("planted_sleep", STACK): ("host_bound", "host_sleep_10ms"),
    ("planted_sleep", NSYS): ("host_bound", ""),
    ("sync_item", STACK): ("sync_bound", "24 blocking calls a step"),
    ("sync_item", NSYS): ("sync_bound", "read_back_scalar"),
    ("launch_bound", STACK): ("launch_bound", "many_tiny_pointwise"),
    ("launch_bound", NSYS): ("launch_bound", ""),
    ("cpu_preprocess", NSYS): ("host_bound", "tokenize_and_pad"),
    ("dataloader_starved", STACK): ("input_bound", "decode_image"),
    ("dataloader_workers2", TORCH): ("input_bound", ""),
    ("h2d_pageable", NSYS): ("copy_bound", "100.0 %"),
    ("gil_thread", NSYS): ("host_bound", "interpreter lock"),
    ("inference_batches", STACK): ("host_bound", "wait_for_request"),
    ("checkpoint_every_5", TORCH): ("periodic_pause", "every 5 steps"),
    ("checkpoint_every_5", STACK): ("periodic_pause", "in 1 of 6 steps"),
    ("checkpoint_every_5", NSYS): ("periodic_pause", "a checkpoint"),
    ("alloc_churn", NSYS): ("allocation_bound", "mostly in forward"),
    ("amp_small_eager", TORCH): ("launch_bound", ""),
    ("memory_bound", NSYS): ("healthy", ""),
    ("healthy", TORCH): ("healthy", ""),
    ("cuda_graph", STACK): ("healthy", ""),
    ("streams_overlap", NSYS): ("healthy", ""),
    ("amp_small", TORCH): ("healthy", ""),
    ("ddp2_healthy", "rank?.json.gz"): ("healthy", ""),
    ("ddp2_healthy", NSYS): ("healthy", ""),
    ("ddp2_slow1", "rank?.stack.json.gz"): ("straggler_bound", "load_extra_batch"),
    ("ddp2_heavy1", "rank?.json.gz"): ("straggler_bound", "rank 1"),
}
HEALTHY = {key for key, (verdict, _) in PLANTED.items() if verdict == "healthy"}
SHOWN = [
    ("planted_sleep", STACK),
    ("checkpoint_every_5", TORCH),
    ("sync_item", STACK),
    ("ddp2_slow1", "rank?.stack.json.gz"),
    ("healthy", TORCH),
]


def files(workload, pattern):
    return sorted(TRACES.joinpath(workload).glob(pattern))


@functools.cache
def checked(workload, pattern):
    with TraceSet.of_files(files(workload, pattern)) as traces:
        inputs = shlex.join(map(str, files(workload, pattern)))
        return traces.checkup(inputs=inputs), traces.steps()


def verdicts(workload, pattern):
    return list(checked(workload, pattern)[0].verdicts.rows())


@pytest.mark.parametrize(("workload", "pattern"), PLANTED)
def test_the_first_verdict_is_what_was_planted(workload, pattern):
    first = verdicts(workload, pattern)[0]
    assert (first["verdict"], PLANTED[workload, pattern][1] in first["title"]) == (PLANTED[workload, pattern][0], True)


@pytest.mark.parametrize(("workload", "pattern"), sorted(HEALTHY))
def test_what_is_healthy_has_no_verdict_with_a_cost(workload, pattern):
    assert not [row for row in verdicts(workload, pattern) if row["cost_ns"]]


@pytest.mark.parametrize(("workload", "pattern"), PLANTED)
def test_costs_stand_in_order_and_are_never_more_than_the_step(workload, pattern):
    answer, steps = checked(workload, pattern)
    costs = [row["cost_ns"] or 0 for row in answer.verdicts.rows()]
    counted = [row for row in steps.steps.rows() if not row["warmup"] and not row["incomplete"]]
    longest = max(row["device_duration_ns"] for row in counted)
    assert costs == sorted(costs, reverse=True)
    assert sum(costs) <= longest
    for row in answer.verdicts.rows():
        assert row["cost_ns"] is None or row["share"] >= 0.03 or row["cost_ns"] == 0


@pytest.mark.parametrize(("workload", "pattern"), PLANTED)
def test_the_charges_of_a_device_add_up_to_its_counted_steps(workload, pattern):
    answer, steps = checked(workload, pattern)
    sums = defaultdict(int)
    for row in answer.charges.rows():
        sums[row["capture"], row["rank"], row["device"]] += row["ns"]
    lengths = defaultdict(int)
    for row in steps.steps.rows():
        if not row["warmup"] and not row["incomplete"] and row["device_duration_ns"]:
            lengths[row["capture"], row["rank"], row["device"]] += row["device_duration_ns"]
    assert sums == lengths


SELECTED = [
    ("checkpoint_every_5", STACK, {"warmup": 3}),
    ("checkpoint_every_5", STACK, {"input_range": ".*", "user_code": "torch"}),
    ("ddp2_slow1", "rank?.json.gz", {"align": "none", "warmup": 2}),
]
"""Options that change figures, which the printed commands have to repeat."""


@pytest.mark.parametrize(("workload", "pattern", "more"), [*((*each, {}) for each in SHOWN), *SELECTED])
def test_commands_show_the_figures_of_the_evidence(workload, pattern, more):
    known = {}
    with TraceSet.of_files(files(workload, pattern)) as traces:
        found = list(traces.checkup(inputs=shlex.join(map(str, files(workload, pattern))), **more).verdicts.rows())
    for verdict in found:
        assert verdict["evidence"]
        for each in verdict["evidence"]:
            words = shlex.split(each["command"])
            assert words[0] == "traceanalyzer"
            if each["command"] not in known:
                done = CliRunner().invoke(root, [*words[1:], "--format", "json", "--top", "0", "--quiet"])
                assert done.exit_code == 0
                known[each["command"]] = json.loads(done.stdout)
            shown = known[each["command"]]
            rows = shown["findings"] if each["table"] == "findings" else shown["tables"][each["table"]]
            mine = [row for row in rows if all(row[name] == value for name, value in each["row"].items())]
            assert [row[each["column"]] for row in mine] == [each["value"]]


@pytest.mark.parametrize("pattern", [TORCH, STACK])
def test_growth_of_memory_is_a_risk_without_a_cost(pattern):
    risk = next(row for row in verdicts("mem_leak", pattern) if row["verdict"] == "memory_growth")
    assert risk["cost_ns"] is None
    assert "64.000 MiB from step to step" in risk["title"]
    assert ("keep_activations" in risk["title"]) == (pattern == STACK)
    planted = TRUTH["workloads"]["mem_leak"]["planted"]["leak_bytes_per_step"]
    assert risk["evidence"][0]["value"] == planted


@pytest.mark.parametrize(("seconds", "words"), [(0.075, "cannot keep up"), (0.002, "keeps up alone")])
def test_a_loader_that_was_timed_alone_is_held_against_the_compute(tmp_path, seconds, words):
    log = tmp_path / "loader.csv"
    log.write_text("batch,loader_s\n" + "".join(f"{k},{seconds}\n" for k in range(10)))
    trace = TRACES / "dataloader_starved" / TORCH
    with TraceSet.of_files([trace, log]) as traces:
        answer = traces.checkup(inputs=shlex.join(map(str, (trace, log))))
        rollup = list(traces.metrics().rollup.rows())
    first = next(iter(answer.verdicts.rows()))
    assert first["verdict"] == "input_bound"
    assert any(words in text and "10 timed" in text for text in first["remarks"])
    told = next(each for each in first["evidence"] if each["source"] == "loader_time")
    (row,) = [r for r in rollup if all(r[name] == value for name, value in told["row"].items())]
    assert told["value"] == pytest.approx(seconds) and row["mean"] == pytest.approx(told["value"])
    assert not any("loader alone" in row["question"] for row in answer.next.rows())


def test_steps_of_a_training_log_are_held_against_the_traced_ones(tmp_path):
    unprofiled = TRUTH["workloads"]["launch_bound"]["unprofiled"]["host_step_ms"]
    log = tmp_path / "train.csv"
    log.write_text("step,step_time_ms\n" + "".join(f"{k},{ms}\n" for k, ms in enumerate(unprofiled)))
    with TraceSet.of_files([TRACES / "launch_bound" / TORCH, log]) as traces:
        texts = [finding.text for finding in traces.checkup().findings if finding.code == "logged_step_time"]
    assert len(texts) == 1 and "2.0" in texts[0].partition(" times as long")[0][-5:]


def test_a_rank_that_is_late_is_told_once():
    """The others' wait is the cost; what the late rank does meanwhile is the reason, and no cost of its own."""
    found = {row["verdict"]: row for row in verdicts("ddp2_slow1", "rank?.stack.json.gz")}
    assert found["straggler_bound"]["cost_ns"] == pytest.approx(6.5e6, abs=0.5e6)
    assert "host_bound" not in found or found["host_bound"]["cost_ns"] < 1e6


def test_advice_tells_the_present_value_or_that_it_is_not_known():
    starved = verdicts("dataloader_starved", STACK)[0]["advice"][0]
    workers = verdicts("dataloader_workers2", TORCH)[0]["advice"][0]
    assert "(num_workers is 0 now, by the class of the loader's iterator)" in starved
    assert "(num_workers is 1 or more now, by the class of the loader's iterator)" in workers
    pinned = verdicts("h2d_pageable", NSYS)[0]["advice"][0]
    assert (
        "(pin_memory is off for 100 % of the bytes: they come from pageable memory now, by the copies to the device)"
        in pinned
    )
    assert "not in the files: look before you change it" in verdicts("launch_bound", STACK)[0]["advice"][0]


def test_what_is_not_known_has_a_command_that_would_tell():
    questions = {row["question"]: row["capture_command"] for row in checked("planted_sleep", STACK)[0].next.rows()}
    assert any("recording of Python frames" in question for question in questions)
    plain = {row["question"]: row["capture_command"] for row in checked("dataloader_workers2", TORCH)[0].next.rows()}
    stacks = next(command for question, command in plain.items() if "which line of Python" in question)
    assert "with_stack=True" in stacks


def test_the_environment_is_told():
    facts = {row["fact"]: row["value"] for row in checked("planted_sleep", NSYS)[0].environment.rows()}
    machine = TRUTH["machine"]
    assert facts["gpu"].startswith("NVIDIA H200")
    assert facts["driver_version"] == machine["driver"]
    assert facts["cpu_cores"] == str(machine["cpu_cores"])
    torch = {row["fact"]: row["value"] for row in checked("ddp2_healthy", "rank?.json.gz")[0].environment.rows()}
    assert torch["nccl_version"] == TRUTH["tools"]["torch"]["nccl"]
    assert torch["cuda_version"] == TRUTH["tools"]["torch"]["cuda"]


def test_in_chinese_the_verdicts_are_the_same():
    with TraceSet.of_files(files("sync_item", STACK)) as traces:
        chinese = list(traces.checkup(lang="zh").verdicts.rows())
    english = verdicts("sync_item", STACK)
    assert [(row["verdict"], row["cost_ns"]) for row in chinese] == [(r["verdict"], r["cost_ns"]) for r in english]
    assert all(any("\u4e00" <= c <= "\u9fff" for c in row["title"] + row["experiment"]) for row in chinese)


def test_what_is_selected_may_be_nothing_or_warmup_alone():
    with TraceSet.of_files(files("ddp2_slow1", "rank0.json.gz")) as traces:
        nothing = traces.checkup(steps="900-901")
        warmup = traces.checkup(warmup=999)
    (row,) = nothing.verdicts.rows()
    assert row["verdict"] == "unknown" and "what was selected" in row["title"]
    assert any("no device step is among 900 to 901" in text for text in nothing.warnings) and not len(nothing.next)
    assert any("warm-up by --warmup" in text for text in warmup.warnings)
