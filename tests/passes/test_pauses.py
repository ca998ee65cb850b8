"""Outliers and recurring pauses, worked out by hand and on captures in which they were planted.

That no other own capture has any is part of `test_conservation`, which reads all of them.
"""

import numpy as np
import pytest

import traceanalyzer
from tests.support.real_traces import MISSING, TRACES, TRUTH, opened, rows
from tests.support.store_builder import Capture, store_of
from traceanalyzer.passes.causes import Cause
from traceanalyzer.passes.idle.lanes import devices_with_gaps
from traceanalyzer.passes.idle.stacks import StackTree
from traceanalyzer.passes.pause_tables import numbers_text
from traceanalyzer.passes.pauses import kind_of, outlying, paused, recurring_pauses
from traceanalyzer.passes.scope import resolve
from traceanalyzer.passes.selection import make_selection
from traceanalyzer.schema.kinds import EventKind
from traceanalyzer.store.database import open_to_read

US, MS = 1_000, 1_000_000


def flags(values, *, counted=None):
    lengths = np.array(values, np.int64)
    return outlying(lengths, np.ones(len(lengths), bool) if counted is None else np.array(counted))


def test_outliers_by_hand():
    # Median 100, median absolute deviation 1: 6 standard deviations are 8.9, but less than 10 %.
    assert flags([100, 99, 101, 100, 98, 110]).tolist() == [False] * 6
    assert flags([100, 99, 101, 100, 98, 112]).tolist() == [False] * 5 + [True]
    # Where steps differ much, only those longer than 1.5 x the median (100) stand out.
    assert flags([60, 80, 100, 120, 150]).tolist() == [False] * 5
    assert flags([60, 80, 100, 120, 151]).tolist() == [False] * 4 + [True]
    assert flags([1, 100]).tolist() == [False, False]
    # What does not count is no outlier, and not in the median either.
    assert flags([900, 100, 100, 101, 300], counted=[False, True, True, True, True]).tolist() == [False] * 4 + [True]


def pausing(lengths, idle):
    counted = np.ones(len(lengths), bool)
    return np.flatnonzero(paused(np.array(lengths, np.int64), np.array(idle, np.int64), counted)).tolist()


def test_only_idle_steps_that_stand_out_have_a_pause():
    assert pausing([100, 100, 300, 100, 300], [5, 5, 205, 5, 205]) == [2, 4]
    # The second long step is busy.
    assert pausing([100, 100, 300, 100, 300], [5, 5, 205, 5, 6]) == [2]
    # One step in between idles for more than half of what these do: nothing stands out.
    assert pausing([100] * 5 + [109, 160, 160], [5] * 5 + [40, 65, 65]) == []
    assert pausing([100] * 5 + [109, 300, 300], [5] * 5 + [35, 205, 205]) == [6, 7]


def stepped(pause_of, count=12, function="save_checkpoint", cause=EventKind.PYTHON_FRAME, busy=False):
    """A kernel in flight, then steps: 10 us of Python, a launch of 1, a kernel of 89; in some steps a pause before.

    `pause_of` tells how long that of a step is. With `busy` a kernel runs meanwhile.
    """
    capture, at, key = Capture().kernel(-100 * US, -10 * US), 0, 0
    for number in range(count):
        pause, begin = pause_of(number) * US, at
        capture.event(EventKind.PYTHON_FRAME, "/home/u/train.py(1): main", at, at + pause + 10 * US)
        if pause and busy:
            key += 1
            capture.launch(at, at + US, key).kernel(at + US, at + pause, key)
        elif pause:
            capture.event(cause, function, at, at + pause)
        at += pause
        key += 1
        capture.launch(at + 10 * US, at + 11 * US, key).kernel(at + 11 * US, at + 100 * US, key)
        capture.event(EventKind.STEP_MARK, f"ProfilerStep#{number}", begin, at + 100 * US)
        at += 100 * US
    return capture


SAVE = "/home/u/train.py(40): save_checkpoint"
WORK = "/home/u/train.py(50): work"


def asked(tmp_path, capture, **selection):
    with traceanalyzer.open(store_of(tmp_path / "s.duckdb", capture)) as traces:
        return traces.steps(**selection)


def test_a_pause_in_every_fourth_step_by_hand(tmp_path):
    answer = asked(tmp_path, stepped(lambda n: 200 if n % 4 == 3 else 0, function=SAVE))
    assert [row["step"] for row in answer.steps.rows() if row["outlier"]] == [3, 7, 11]
    (row,) = answer.pauses.rows()
    # All 12 steps count; the pause is idle time before the launch, of which main has 10 us in every step.
    assert row == {
        "capture": 0,
        "rank": 0,
        "device": 0,
        "pause": 1,
        "kind": "checkpoint",
        "period_steps": 4,
        "first_step": 3,
        "n_pauses": 3,
        "n_steps": 3,
        "excess_ns": 200 * US,
        "idle_ns": 200 * US,
        "cost_ns": 50 * US,
        "cause": "python",
        "blame": "save_checkpoint (train.py:40)",
        "steps": "3, 7, 11",
        "stack": ["main (train.py:1)", "save_checkpoint (train.py:40)"],
    }
    (cause,) = answer.pause_causes.rows()
    assert (cause["cause"], cause["idle_ns"], cause["cost_ns"]) == ("python", 600 * US, 50 * US)
    assert [f.text for f in answer.findings if f.code != "step_time"] == [
        "rank 0, device 0: a pause for a checkpoint every 4 steps (3 times, from step 3 on) makes steps 200.000 us"
        " longer, 200.000 us of it idle: save_checkpoint (train.py:40), Python; 50.000 us a step on average"
    ]
    with traceanalyzer.open(tmp_path / "s.duckdb") as traces:
        # What is listed changes nothing of it.
        assert list(traces.steps(steps="0-2").pauses.rows()) == [row]
        assert [r["n_pauses"] for r in traces.sql("SELECT * FROM pauses").rows.rows()] == [3]


@pytest.mark.parametrize(
    ("pause_of", "found"),
    [
        # Two are a period if it fits from the first step to the last ...
        (lambda n: 200 if n in (4, 9) else 0, [(5, "4, 9")]),
        (lambda n: 200 if n in (1, 4) else 0, []),
        # ... and if they are about as long.
        (lambda n: {4: 200, 9: 400}.get(n, 0), []),
        # Three recur even if not regularly.
        (lambda n: 200 if n in (1, 4, 9) else 0, [(None, "1, 4, 9")]),
        # What comes in every second step is how the job works.
        (lambda n: 200 if n % 2 and n < 10 else 0, []),
        # A pause may reach into the next step.
        (lambda n: {3: 200, 4: 90, 7: 200, 8: 90, 11: 300}.get(n, 0), [(4, "3-4, 7-8, 11")]),
    ],
)
def test_what_recurs(tmp_path, pause_of, found):
    answer = asked(tmp_path, stepped(pause_of, function=WORK))
    assert [(row["period_steps"], row["steps"]) for row in answer.pauses.rows()] == found


@pytest.mark.parametrize(("function", "found"), [(SAVE, [("checkpoint", None, "6")]), (WORK, [])])
def test_one_pause_recurs_only_where_its_name_says_so(tmp_path, function, found):
    answer = asked(tmp_path, stepped(lambda n: 200 if n == 6 else 0, function=function))
    assert [(row["kind"], row["period_steps"], row["steps"]) for row in answer.pauses.rows()] == found


def test_busy_outliers_and_late_batches_are_no_pauses(tmp_path):
    answer = asked(tmp_path, stepped(lambda n: 200 if n % 4 == 3 else 0, busy=True))
    assert [row["step"] for row in answer.steps.rows() if row["outlier"]] == [3, 7, 11] and not len(answer.pauses)
    assert answer.findings[-1].text == (
        "rank 0, device 0: 3 steps are outliers beside the median of 100.000 us: step 3 takes 300.000 us, 12.000 us of"
        " it idle; step 7 takes 300.000 us, 12.000 us of it idle; step 11 takes 300.000 us, 12.000 us of it idle"
    )
    (tmp_path / "loader").mkdir()
    name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    loader = stepped(lambda n: 200 if n % 4 == 3 else 0, function=name, cause=EventKind.RANGE)
    assert not len(asked(tmp_path / "loader", loader).pauses)


def test_an_excess_is_never_more_than_its_step_is_longer(tmp_path):
    """In steps with a pause the kernel is short: the step idles for 200 us more, and is 150 us longer."""
    capture, at = Capture().kernel(-100 * US, -10 * US), 0
    for number in range(9):
        pause = 200 * US if number % 3 == 2 else 0
        busy = 100 * US - pause // 4
        capture.event(EventKind.PYTHON_FRAME, SAVE, at, at + pause)
        capture.launch(at + pause, at + pause + US, number + 1)
        capture.kernel(at + pause + US, at + pause + US + busy, number + 1)
        capture.event(EventKind.STEP_MARK, f"ProfilerStep#{number}", at, at + pause + US + busy)
        at += pause + US + busy
    (row,) = asked(tmp_path, capture).pauses.rows()
    assert (row["period_steps"], row["excess_ns"], row["idle_ns"], row["cost_ns"]) == (3, 150 * US, 150 * US, 50 * US)


@pytest.mark.parametrize(
    ("frames", "kind"),
    [
        (["main (train.py:1)", "save_checkpoint (train.py:40)"], "checkpoint"),
        (["fit (loop.py:1)", "_save (io.py:3)", "torch.save"], "checkpoint"),
        (["main (train.py:1)", "checkpoint (checkpoint.py:480)"], "unknown"),
        (["main (train.py:1)", "evaluate_model (train.py:9)"], "evaluation"),
        (["run_validation (val.py:2)"], "evaluation"),
        (["retrieval (rag.py:2)", "interval (rag.py:2)"], "unknown"),
        (["log_metrics (train.py:9)"], "logging"),
        (["log_softmax (functional.py:9)", "catalog (data.py:1)", "login (hub.py:1)"], "unknown"),
        (["gc.collect"], "garbage_collection"),
        ([], "unknown"),
    ],
)
def test_kinds_by_names(frames, kind):
    assert kind_of(Cause.PYTHON, frames[-1] if frames else None, frames) == kind


def test_the_blame_tells_the_kind_before_what_is_around_it():
    stack = ["evaluate (train.py:1)", "save_checkpoint (train.py:9)", "write (io.py:3)"]
    assert kind_of(Cause.PYTHON, "evaluate (train.py:1)", stack) == "evaluation"
    assert kind_of(Cause.PYTHON, None, stack) == "checkpoint"
    assert kind_of(Cause.GARBAGE_COLLECTION, None, stack) == "garbage_collection"


def test_numbers_in_words():
    assert numbers_text([3, 4, 5, 8, 10, 11]) == "3-5, 8, 10-11"


PLANTED = [
    ("checkpoint_every_5", "torch.json.gz", None),
    ("checkpoint_every_5", "nsys.sqlite.gz", None),
    ("ddp2_occasional", "rank0.json.gz", None),
    ("ddp2_occasional", "rank0.stack.json.gz", None),
    ("ddp2_occasional", "nsys.sqlite.gz", "rank0"),
]


@pytest.mark.skipif(not TRUTH, reason=MISSING)
@pytest.mark.parametrize(("workload", "name", "part"), PLANTED, ids=["/".join(each[:2]) for each in PLANTED])
def test_planted_pauses_are_found_and_as_long_as_a_stop_watch_measured(workload, name, part):
    truth = TRUTH["workloads"][workload]
    facts = truth["captures"][name] if part is None else truth["captures"][name][part]
    with opened(TRACES / workload / name) as traces:
        answer = traces.steps()
        connection = open_to_read(traces.path)
        scope = resolve(connection, make_selection(rank="0"))
        tree = StackTree(scope)
        (pause,) = [p for d in devices_with_gaps(scope, tree) for p in recurring_pauses(scope, tree, d)]
        connection.close()
    (row,) = answer.pauses.rows()
    planted = truth["planted"]
    assert row["period_steps"] == pause.period_steps == planted["every_steps"]
    listed = rows(answer, "steps", rank=0)
    first = facts.get("first_step", facts["planted_calls"][0]["step"] - pause.first_steps[0] + listed[0]["step"])
    # Steps in the numbers of the trace; the first one of a capture may be incomplete.
    calls = {call["step"] - first + listed[0]["step"]: call["ms"] for call in facts["planted_calls"]}
    assert set(pause.first_steps) == {step for step in calls if step > listed[0]["step"]}
    watch = sum(ms for step, ms in calls.items() if step in pause.first_steps) / len(pause.first_steps)
    assert row["excess_ns"] == pytest.approx(watch * MS, rel=0.03)
    if "stack" in name or "nsys" in name:
        assert row["blame"].startswith(planted["function"])
    assert row["kind"] == ("unknown" if row["blame"] is None else "checkpoint")
    # The idle part is told by cause, and is never more than the steps are longer.
    assert pause.idle_ns == sum(r["idle_ns"] for r in answer.pause_causes.rows())
    assert pause.idle_ns <= (pause.excess_ns + 1) * row["n_pauses"]
    assert row["cost_ns"] == round(pause.idle_ns / pause.n_counted)
    idle = sum(row["idle_ns"] for row in listed if row["step"] in pause.steps)
    assert 0.9 * idle <= pause.idle_ns <= idle


@pytest.mark.skipif(not TRUTH, reason=MISSING)
def test_one_pause_alone_recurs_where_its_name_says_so():
    with opened(TRACES / "checkpoint_every_5" / "torch.stack.json.gz") as traces:
        answer = traces.steps()
    assert [row["step"] for row in answer.steps.rows() if row["outlier"]] == [4, 5]
    (row,) = answer.pauses.rows()
    assert (row["kind"], row["period_steps"], row["n_pauses"], row["steps"]) == ("checkpoint", None, 1, "4-5")
    assert "how often these steps do not tell" in answer.findings[-1].text
