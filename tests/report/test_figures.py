"""Figures show what the tables say: parts add up, nothing is lost, names stay text."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.checkup.charges import VERDICT_OF_PART
from traceanalyzer.passes import gaps as gaps_pass
from traceanalyzer.passes.answer import Answer, Frame
from traceanalyzer.passes.causes import Cause
from traceanalyzer.report.blocks import Figure
from traceanalyzer.report.figures import FIGURES, figures_of
from traceanalyzer.report.figures.idle import LEAST_SHARE, icicle
from traceanalyzer.report.figures.memory import thinned
from traceanalyzer.report.palette import _BUSY, _IDLE, _OF_CLASSES, _OF_VERDICTS, style_of
from traceanalyzer.report.rendering import figure_json
from traceanalyzer.report.scale import time_scale


def figure_of(sample, question, name):
    answer = sample.traces.checkup() if question == "checkup" else sample.traces.ask(question, top=0)
    return answer, next((figure for figure in figures_of(answer) if figure.name == name), None)


def summed(figure):
    """The sum of all bars, in the unit of the figure."""
    return sum(value for trace in figure.traces for value in trace["x"] if value)


def test_the_bars_of_the_ledger_are_the_spans(sample):
    answer, figure = figure_of(sample, "ledger", "ledger")
    spans = sum(sample.traces.gaps().tables["devices"].columns["span_ns"])
    if not spans:
        assert figure is None
        return
    unit = figure.layout["xaxis"]["title"]["text"]
    assert summed(figure) == pytest.approx(spans / {"ms": 1e6, "us": 1e3, "s": 1e9}[unit], rel=1e-4)
    assert len(answer.tables["totals"]) == sum(1 for t in figure.traces for value in t["x"] if value)


def test_the_parts_of_a_step_are_the_step(sample):
    answer, figure = figure_of(sample, "checkup", "composition")
    rows = [row for row in answer.tables["costs"].rows() if row["typical"]]
    if not rows:
        assert figure is None
        return
    devices = {(row["capture"], row["device"]) for row in rows}
    step = sum(row["per_step_ns"] for row in rows) / len(devices)
    scale = time_scale([step])
    assert summed(figure) == pytest.approx(step / scale.size, rel=1e-5)
    assert figure.layout["xaxis"]["title"]["text"] == scale.unit


def test_every_level_of_the_icicle_lies_in_the_one_above(sample):
    answer, figure = figure_of(sample, "gaps", "icicle")
    idle = sum(answer.tables["devices"].columns["idle_ns"])
    if not idle:
        assert figure is None
        return
    (trace,) = figure.traces
    levels: dict[int, list[tuple[float, float]]] = {}
    for base, width, depth in zip(trace["base"], trace["x"], trace["y"], strict=True):
        levels.setdefault(depth, []).append((base, base + width))
    size = time_scale([idle]).size
    assert sum(end - start for start, end in levels[0]) == pytest.approx(idle / size, rel=1e-4)
    for depth, boxes in levels.items():
        ordered = sorted(boxes)
        assert all(a[1] <= b[0] + 2e-6 for a, b in pairwise(ordered))
        if depth:
            for start, end in boxes:
                assert any(s - 2e-6 <= start and end <= e + 2e-6 for s, e in levels[depth - 1])


def stacks_of(rows):
    """An answer of `gaps` with these stacks: (frames, cause, idle time)."""
    idle = sum(ns for *_, ns in rows)
    device = {column.name: None for column in gaps_pass.DEVICES.columns} | {"idle_ns": idle}
    stacks = [
        {column.name: None for column in gaps_pass.STACKS.columns} | {"stack": frames, "cause": cause, "idle_ns": ns}
        for frames, cause, ns in rows
    ]
    tables = {
        "devices": Frame.of_rows(gaps_pass.DEVICES, [tuple(device.values())]),
        "stacks": Frame.of_rows(gaps_pass.STACKS, [tuple(row.values()) for row in stacks]),
    }
    return Answer("gaps", tables)


def test_the_icicle_of_a_small_tree():
    figure = icicle(
        stacks_of(
            [
                (["main", "step", "load"], "python", 600),
                (["main", "step", "forward"], "framework", 300),
                (["main", "log"], "python", 99),
                ([], "outside_events", 1),
            ]
        )
    )
    (trace,) = figure.traces
    boxes = [
        (depth, base, width, label)
        for depth, base, width, label in zip(trace["y"], trace["base"], trace["x"], trace["text"], strict=True)
    ]
    assert boxes == [
        (0, 0.0, 999.0, "main"),
        (1, 0.0, 900.0, "step"),
        (2, 0.0, 600.0, "load > [python]"),
        (2, 600.0, 300.0, "forward > [framework]"),
        (1, 900.0, 99.0, "log > [python]"),
        (0, 999.0, 1.0, "(1 smaller)"),
    ]
    assert LEAST_SHARE > 0.001


def test_stacks_that_are_not_listed_have_a_box():
    answer = stacks_of([(["main"], "python", 600)])
    answer.tables["devices"].columns["idle_ns"] = [1000]
    (trace,) = icicle(answer).traces
    assert dict(zip(trace["text"], trace["x"], strict=True)) == {
        "main > [python]": 600.0,
        "(smaller stacks, not listed)": 400.0,
    }


def test_every_question_with_figures_is_one():
    from traceanalyzer.passes.registry import PASSES

    assert set(FIGURES) <= {*PASSES, "checkup"}


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**9)), min_size=1, max_size=300),
    st.integers(4, 80),
)
def test_thinned_lines_keep_their_peaks(points, most):
    points = sorted(points)
    kept = thinned(points, most)
    assert len(kept) <= max(most, len(points) if len(points) <= most else most + 2)
    assert set(kept) <= set(points)
    assert kept == sorted(kept)
    assert max(value for _, value in kept) == max(value for _, value in points)
    assert min(value for _, value in kept) == min(value for _, value in points)


@given(st.text(max_size=40))
def test_names_are_text_in_figures(name):
    text = figure_json(Figure("f", "t", "w", [{"type": "bar", "text": [name], "hovertemplate": "<b>%{x}</b>"}]))
    assert "<" not in text and ">" not in text
    assert "&" not in text
    assert not any(c in text for c in "\u202e\u2066\x1b\u2028")


def test_no_two_parts_look_the_same():
    """Within what stands in one figure, colour and pattern together tell parts apart."""
    for group in (_OF_CLASSES, {**_BUSY, **{f"idle:{name}": style for name, style in _IDLE.items()}}):
        looks = [(style.color, style.pattern) for name, style in group.items() if name != "communication"]
        assert len(set(looks)) == len(looks)
    assert len({(s.color, s.pattern) for s in _OF_VERDICTS.values()}) == len(_OF_VERDICTS)
    assert {cause.text for cause in Cause} == set(_IDLE)
    assert set(VERDICT_OF_PART.values()) <= set(_OF_VERDICTS)
    assert style_of("idle:never_heard_of").color
