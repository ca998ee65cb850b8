"""Nothing is lost and nothing counted twice, to the nanosecond, on every real trace of at most 1.4 MB (packed).

Three are larger: they would take half of the time and show nothing else. Nor would further ranks of the same program,
or captures that another nsys exported once more.
"""

import re
from collections import Counter, defaultdict
from dataclasses import replace

import pytest

from tests.support.real_traces import MISSING, PUBLIC, TRACES, opened, rows, title
from traceanalyzer.cli.main import run
from traceanalyzer.errors import SourceError
from traceanalyzer.passes.answer import Frame
from traceanalyzer.passes.idle.accounts import DeviceAccount, thread_names
from traceanalyzer.passes.idle.grouping import BY, group_rows, joined_groups
from traceanalyzer.passes.idle.lanes import devices_with_gaps
from traceanalyzer.passes.idle.stacks import StackTree
from traceanalyzer.passes.scope import resolve
from traceanalyzer.passes.selection import GROUPINGS, make_selection
from traceanalyzer.store.database import open_to_read

ALIKE = re.compile(r"nanogpt_8xh100_r[1-7]|(fsdp2|ddp2_healthy|ddp2_heavy1|ddp2_occasional)/rank1|nsys\.v2023")
FILES = [
    path
    for folder in (TRACES, PUBLIC / "torch", PUBLIC / "nsys")
    for path in sorted([*folder.rglob("*.json.gz"), *folder.rglob("*.sqlite.gz")])
    if path.stat().st_size <= 1_400_000 and not ALIKE.search(path.as_posix())
]
SMALL = 100_000
REFUSED = {"truncated_by_older_nsys_x2022.sqlite.gz"}
"""Files that are refused, as a whole."""
CAUSE = ("capture", "device", "cause", "reason")
OTHER_LANE = {"communication_only", "copy_only"}

pytestmark = pytest.mark.skipif(not FILES, reason=MISSING)


def sums(frame, column="idle_ns", *, keys=("capture", "device")):
    """Sums of a column of a table by device."""
    out = defaultdict(int)
    for row in frame.rows():
        out[tuple(row[key] for key in keys)] += row[column]
    return {key: ns for key, ns in out.items() if ns}


def devices(answer):
    """Idle time of each device that has some; span, busy and idle are of one piece."""
    for row in answer.devices.rows():
        assert row["span_ns"] == row["end_ns"] - row["start_ns"] == row["busy_ns"] + row["idle_ns"]
    return sums(answer.devices)


PIECES = """
WITH pieces AS (
    SELECT *, end_ns - start_ns AS ns, lag(end_ns) OVER follow AS before,
        [cause, reason, node_id::VARCHAR, refill::VARCHAR, sampled::VARCHAR] AS what, lag(what) OVER follow AS previous
    FROM gap_pieces WINDOW follow AS (PARTITION BY capture, device, gap ORDER BY start_ns)
)
SELECT capture, device, gap, cause, reason, sum(ns) AS ns, min(ns) AS least, min(start_ns) AS start_ns,
    max(end_ns) AS end_ns, count(*) FILTER (before <> start_ns) AS apart, count(*) FILTER (what = previous) AS alike,
    arg_max(cause, [ns, -start_ns]) AS longest
FROM pieces GROUP BY GROUPING SETS ((capture, device, gap), (capture, device, cause, reason))
"""
"""`gap_pieces` by gap, and by cause."""


def check_sums(answer):
    """Every account of idle time adds up to it."""
    idle = devices(answer)
    for table in ("causes", "stacks", "blames", "threads"):
        assert sums(getattr(answer, table)) == idle, table
    assert sums(answer.gaps, "duration_ns") == idle


def check_pieces(answer, pieces):
    """The pieces of each gap follow each other from its start to its end, neighbours differ; causes are their sums."""
    by_cause = {(row["capture"], row["device"], row["cause"], row["reason"]): row for row in pieces if row["cause"]}
    of_gap = {(row["capture"], row["device"], row["gap"]): row for row in pieces if row["gap"] is not None}
    assert {key: row["ns"] for key, row in by_cause.items()} == sums(answer.causes, keys=CAUSE)
    gaps = {(row["capture"], row["device"], row["gap"]): row for row in answer.gaps.rows()}
    assert gaps.keys() == of_gap.keys()
    for key, gap in gaps.items():
        mine = of_gap[key]
        assert (mine["start_ns"], mine["end_ns"], mine["ns"]) == (gap["start_ns"], gap["end_ns"], gap["duration_ns"])
        assert mine["ns"] == mine["end_ns"] - mine["start_ns"]
        assert (mine["least"] > 0, mine["apart"], mine["alike"]) == (True, 0, 0)
        assert gap["cause"] == mine["longest"]
    counts = Counter(key[:2] for key in gaps)
    assert all(row["n_gaps"] == counts[row["capture"], row["device"]] for row in answer.devices.rows())


def check_ledger(traces, device_lane, compute_lane):
    """Categories add up to the span, and their idle part to the causes; compute is what is not compute idle."""
    ledger = traces.ledger()
    spans = {(row["capture"], row["device"]): row for row in device_lane.devices.rows()}
    for table in (ledger.ledger, ledger.totals):
        assert sums(table, "ns") == {key: row["span_ns"] for key, row in spans.items() if row["span_ns"]}
    of_category = sums(ledger.totals, "ns", keys=("capture", "device", "category"))
    idle = {(*key[:2], key[2].removeprefix("idle:")): ns for key, ns in of_category.items() if "idle:" in key[2]}
    assert idle == sums(device_lane.causes, keys=("capture", "device", "cause"))
    for row in compute_lane.devices.rows():
        key = row["capture"], row["device"]
        assert row["span_ns"] == spans[key]["span_ns"]
        assert row["busy_ns"] == row["compute_ns"] == of_category.get((*key, "compute"), 0)


OPEN = """
WITH operators AS (
    SELECT process, thread, start_ns, end_ns, max(end_ns) OVER (PARTITION BY process, thread
        ORDER BY start_ns, end_ns DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reached
    FROM cpu_events WHERE kind = 'operator' OR (kind = 'step_mark' AND domain IN ('Operator', 'cpu_op'))
)
SELECT coalesce(sum(greatest(end_ns - greatest(start_ns, coalesce(reached, start_ns)), 0)), 0)::BIGINT AS ns
FROM operators
"""
"""Time in which threads have an operator open."""


def check_operators(traces):
    """Self times of operators add up to the time in which threads have one open, however they are grouped."""
    answer = traces.ops()
    if answer.notes[1:]:
        return  # ranges stand for operators
    (known,) = rows(traces.sql(OPEN), "rows")
    for frame in (answer.ops, answer.by_shape):
        assert sum(row["host_self_ns"] for row in frame.rows()) == known["ns"]
    assert all(row["host_self_ns"] <= row["host_total_ns"] for row in answer.by_shape.rows())


PAUSES = {
    "checkpoint_every_5/torch.json": [(0, 5)],
    "checkpoint_every_5/torch.stack.json": [(0, None)],
    "checkpoint_every_5/nsys.sqlite": [(0, 5)],
    "ddp2_occasional/rank0.json": [(0, 4)],
    "ddp2_occasional/rank0.stack.json": [(0, 4)],
    "ddp2_occasional/nsys.sqlite": [(0, 4)],
}
"""Rank and period of the recurring pauses of our own captures."""


def check_views(path, traces):
    """The parts of a summary add up to the device steps, without steps to the span; only planted pauses recur."""
    stepped, everything = defaultdict(int), defaultdict(int)
    for row in traces.ledger().ledger.rows():
        key = row["capture"], row["device"]
        everything[key] += row["ns"]
        stepped[key] += row["ns"] if row["step"] is not None else 0
    parts = sums(traces.summary().summary, "ns")
    assert parts == {key: stepped[key] or ns for key, ns in everything.items() if ns}
    assert [(row["rank"], row["period_steps"]) for row in traces.steps().pauses.rows()] == PAUSES.get(title(path), [])


@pytest.mark.parametrize("path", FILES, ids=title)
def test_idle_time_is_conserved(path):
    if path.name in REFUSED:
        with pytest.raises(SourceError), opened(path):
            pass
        return
    with opened(path) as traces:
        answers = {lane: traces.gaps(lane=lane) for lane in ("device", "compute")}
        # What takes longest is asked of the compute lane of small files only.
        lanes = ("device", "compute") if path.stat().st_size < SMALL else ("device",)
        for lane, answer in answers.items():
            check_sums(answer)
            if lane in lanes:
                check_groups(traces, answer, lane)
        check_ledger(traces, answers["device"], answers["compute"])
        check_operators(traces)
        if TRACES in path.parents:
            check_views(path, traces)
        # What a device idles keeps its causes on the compute lane; the rest is what else ran.
        causes = {lane: sums(answer.causes, keys=CAUSE) for lane, answer in answers.items()}
        assert {key: ns for key, ns in causes["compute"].items() if key[2] not in OTHER_LANE} == causes["device"]
        for lane in lanes:
            check_pieces(answers[lane], rows(traces.sql(PIECES, lane=lane), "rows"))


def check_groups(traces, answer, lane):
    """However idle time is grouped, the groups add up to it; what is added up is worked out once for all groupings."""
    connection = open_to_read(traces.path)
    scope = resolve(connection, make_selection(lane=lane))
    tree = StackTree(scope)
    accounts = [DeviceAccount(scope, tree, part) for part in devices_with_gaps(scope, tree)]
    names = [thread_names(scope, account.device) for account in accounts]
    connection.close()
    whole = {account.place[::2]: account.part.idle_ns for account in accounts}
    for by in GROUPINGS:
        grouped = replace(scope, selection=replace(scope.selection, by=by))
        found = [group_rows(grouped, tree, account, named) for account, named in zip(accounts, names, strict=True)]
        shown = Frame.of_rows(BY, joined_groups(grouped, [row for each in found for row in each], whole))
        assert len({(r["capture"], r["device"], r["key"]) for r in shown.rows()}) == len(list(shown.rows()))
        if by == "rank":
            assert sum(r["idle_ns"] for r in shown.rows()) == sum(devices(answer).values())
        else:
            assert sums(shown) == devices(answer)


COPYING = PUBLIC / "nsys" / "nsysai_h100_2gpu_2026_2.sqlite.gz"


@pytest.mark.skipif(not COPYING.exists(), reason=MISSING)
def test_a_device_that_only_copies_is_busy_and_idle_at_once():
    with opened(COPYING) as traces:
        device, compute = traces.gaps(), traces.gaps(lane="compute")
        check_pieces(compute, rows(traces.sql(PIECES, lane="compute"), "rows"))
    (busy,), (idle,) = rows(device, "devices", device=0), rows(compute, "devices", device=0)
    assert round(100 * busy["idle_share"], 2) == 0.68
    assert round(100 * idle["idle_share"], 2) == 97.69
    assert (busy["lane"], idle["lane"]) == ("device", "compute")
    first, *_ = rows(compute, "causes", device=0)
    assert first["cause"] == "copy_only"
    assert first["share"] > 0.9


@pytest.mark.skipif(not COPYING.exists(), reason=MISSING)
def test_one_answer_tells_both_lanes(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TRACEANALYZER_CACHE", str(tmp_path))
    monkeypatch.delenv("COLUMNS", raising=False)  # workers of the tests have it: then sentences wrap
    assert run(["gaps", str(COPYING), "--device", "0"]) == 0
    told = capsys.readouterr().out
    device, compute = told.index("idle of the device lane"), told.index("idle of the compute lane")
    assert device < told.index("0.68 % of its span, yet compute kernels only for 2.3 % of it") < compute
    assert device < told.index("device_gap") < compute < told.index("copy_only")
    assert "97.7 %" in told[compute:]
    assert "copies that nothing hides" in told[compute:]
