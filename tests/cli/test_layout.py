"""Tables on terminals of any width: figures whole, sentences wrapped, nothing beyond the edge."""

import re

import pytest

from traceanalyzer.cells import heading, width_of
from traceanalyzer.cli.render.layout import Kind, Shown, are_figures, fitted, laid_out, wrapped
from traceanalyzer.cli.render.table import as_terminal
from traceanalyzer.passes.answer import Answer, Frame, TableSpec
from traceanalyzer.passes.launches import DEPTH
from traceanalyzer.passes.registry import PASSES
from traceanalyzer.passes.results import RESULTS
from traceanalyzer.passes.steps import STEPS
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.units import Unit
from traceanalyzer.views import SENTENCES, columns_shown
from traceanalyzer.views.markdown import as_markdown

SENTENCE = "no kernel was profiled: record some with ncu, and ingest ncu --import REPORT --csv --page raw"
KERNEL = "void at::elementwise_kernel<128, 2, at::gpu_kernel_impl_nocast<at::direct_copy>>(int, T3)"
TABLES = [(question, spec) for question, each in PASSES.items() for spec in each.tables]


def value(column, number):
    if column.type is Type.BOOL:
        return number % 2 == 0
    if column.type in (Type.INT64, Type.INT32):
        return 123_456_789 + number if column.unit is Unit.NS else 1_234_000 + number
    if column.type is Type.FLOAT64:
        return 0.125 if column.unit is Unit.SHARE else 98.5
    if column.name in ("grid", "block"):
        return f"({131072 + number}, 1024, 64)"
    if column.name == "stack" and number == 1:
        return []
    if column.name == "stack":
        return [f"outer (train.py:{number})", KERNEL, f"load_batch (data.py:{number})"]
    return SENTENCE if column.name in SENTENCES else KERNEL


def answer_of(question, spec, rows=3):
    columns = {c.name: [value(c, number) for number in range(rows)] for c in spec.columns}
    return Answer(question, {spec.name: Frame(spec, columns)})


@pytest.mark.parametrize(("question", "spec"), TABLES, ids=[f"{q}-{s.name}" for q, s in TABLES])
def test_tables_fit_and_keep_figures_and_sentences_whole(question, spec):
    answer = answer_of(question, spec)
    wide = as_terminal(answer, 0, spec.name, 2000)
    figures = set(re.findall(r"\(1310\d\d, 1024, 64\)|[\d,]*\d\.\d+ (?:ms|%)|1,?234,?00\d|98\.5\d?", wide))
    for width in range(40, 130, 9):
        text = as_terminal(answer, 0, spec.name, width)
        assert max(width_of(line) for line in text.splitlines()) <= width, text
        # A column that is left out, and said to be, may be the only one with a share.
        left_out = "(too narrow for: " in text and "share" in text.partition("(too narrow for: ")[2]
        missing = {figure for figure in figures if figure not in text}
        assert missing <= ({"12.5 %"} if left_out else set()), text
        if SENTENCE in wide:
            words = " ".join(text.split())
            assert all(word in words for word in SENTENCE.split())
            assert "…gest" not in text


def test_sentences_wrap_beside_the_other_cells():
    columns = [
        Shown("question", ["limits", "gaps"], Kind.NAMES),
        Shown("reason", [SENTENCE, "short"], Kind.SENTENCES),
        Shown("n", ["12", "3"], Kind.FIGURES, right=True),
    ]
    head, rows = laid_out(columns, 56)
    assert head == ["question  reason                                       n"]
    assert rows == [
        [
            "limits    no kernel was profiled: record some with    12",
            "          ncu, and ingest ncu --import REPORT --csv",
            "          --page raw",
        ],
        ["gaps      short                                        3"],
    ]


def test_headings_break_before_names_are_shortened():
    columns = [
        Shown("exposed_communication", ["1.000 ms"], Kind.FIGURES, right=True),
        Shown("kernel", ["a" * 40], Kind.NAMES),
    ]
    head, rows = laid_out(columns, 56)
    assert head == ["      exposed_", " communication  kernel"]
    assert rows == [["      1.000 ms  " + "a" * 40]]
    assert "…" in laid_out(columns, 50)[1][0][0]


def test_rows_that_do_not_fit_become_records():
    columns = [
        Shown("rank", ["0", "1"], Kind.FIGURES, right=True),
        Shown("grid", ["(32768, 1, 1)", "(2, 66, 1)"], Kind.FIGURES),
        Shown("reason", [SENTENCE, ""], Kind.SENTENCES),
        Shown("kernel", [KERNEL, "gemm"], Kind.NAMES),
    ]
    assert fitted(columns, 40) is None
    assert laid_out(columns, 40) == (
        [],
        [
            [
                "rank 0  grid (32768, 1, 1)",
                "  kernel void at::elemen…copy>>(int, T3)",
                "  reason: no kernel was profiled: record",
                "  some with ncu, and ingest ncu --import",
                "  REPORT --csv --page raw",
            ],
            ["rank 1  grid (2, 66, 1)  kernel gemm"],
        ],
    )


def test_sizes_are_figures_and_names_are_not():
    assert are_figures(["(32768, 1, 1)", "", "(2, 66, 1)"])
    assert not are_figures(["", ""]) and not are_figures(["sm90"]) and not are_figures([["1"]])


def test_long_words_are_broken_inside_and_wide_letters_counted():
    assert wrapped("a bcdefgh i", 4) == ["a", "bcde", "fgh", "i"]
    assert wrapped("核函数 naïve", 5) == ["核函", "数", "naïve"]
    assert wrapped("", 5) == [""]


@pytest.mark.parametrize(
    ("name", "unit", "shown"),
    [
        ("ns", Unit.NS, "time"),
        ("idle_ns", Unit.NS, "idle"),
        ("start_ns", Unit.NS, "start_ns"),  # an instant stands there in nanoseconds
        ("bytes", Unit.BYTES, "size"),
        ("memory_bytes", Unit.BYTES, "memory"),
        ("mean_bytes_per_s", Unit.BYTES_PER_S, "mean"),
        ("dram_pct", Unit.PERCENT, "dram"),
        ("ns", Unit.NONE, "ns"),  # a column of a query: its cells have no unit
    ],
)
def test_headings_have_no_unit_that_stands_in_the_cells(name, unit, shown):
    assert heading(Column(name, Type.INT64, "Something.", unit)) == shown


def test_headings_of_a_table_differ():
    for question, spec in TABLES:
        answer = answer_of(question, spec)
        heads = [heading(column) for column in columns_shown(answer, *[answer.table(spec.name)] * 2)]
        assert len(set(heads)) == len(heads), spec.name


def test_the_last_line_says_how_many_rows_are_missing():
    spec = TableSpec("rows", "Rows.", (Column("n", Type.INT64, "N."),))

    def last(rows, top):
        return as_terminal(Answer("gaps", {"rows": Frame(spec, {"n": list(range(rows))})}), top, "rows", 80).split(
            "\n"
        )[-2]

    # Questions are asked for one row more, and some leave out the others themselves.
    assert last(3, 3) == "2" and last(3, 0) == "2"
    assert last(4, 3) == "... more rows; --top 0 lists all"
    assert last(5, 3) == "... 2 more rows; --top 0 lists all"


def test_null_and_marks_say_what_they_mean():
    rows = [(0, 0, 0, 100, depth, 5, 0.5, 1) for depth in (None, 0)]
    answer = Answer("launches", {"depth": Frame.of_rows(DEPTH, rows)})
    assert [line.split()[2] for line in as_terminal(answer, 0, "depth", 120).splitlines()] == ["depth", "unknown", "0"]
    assert " unknown " in as_markdown(answer, 0, "depth")
    row = {c.name: 0 for c in STEPS.columns}
    frames = [
        Frame.of_rows(STEPS, [tuple((row | {"incomplete": mark, "warmup": False}).values())]) for mark in (True, False)
    ]
    marked, plain = (as_terminal(Answer("steps", {"steps": frame}), 0, None, 200) for frame in frames)
    assert "incomplete" in marked and "incomplete" not in plain and "warmup" not in marked


def test_columns_that_are_left_out_are_named():
    answer = answer_of("kernels", RESULTS["kernels"].spec)
    texts = {width: as_terminal(answer, 0, "kernels", width) for width in (220, 130, 60)}
    assert ["(too narrow for: min" in text for text in texts.values()] == [False, True, False]
    assert ["max" in text.partition("(too narrow")[0] for text in texts.values()] == [True, False, True]
