"""Real pages as ncu of another locale, age or unit setting prints them, and damaged: the same numbers, or none.

Each real page is rewritten in the C locale. That twin and each mutation of it are read, and compared launch by launch.
"""

import csv
import functools
import io
import random
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.memory_sink import MemorySink
from tests.support.ncu_mutations import (
    LOCALES,
    Page,
    blanked,
    in_locale,
    localised,
    page_of,
    real_pages,
    reordered,
    rescaled,
    respelled,
)
from tests.support.ncu_writer import RULES, launch, line, metric, page, read_file, read_text, wide
from tests.support.real_traces import MISSING, title
from traceanalyzer.errors import SourceError
from traceanalyzer.schema.column import Type
from traceanalyzer.schema.tables import TABLE_BY_NAME

PAGES = real_pages()
pytestmark = pytest.mark.skipif(not PAGES, reason=MISSING)
every_page = pytest.mark.parametrize("path", PAGES, ids=title)

_PLACES = ("launch", "table_number")
_NUMBERS = {
    table: [c.name for c in TABLE_BY_NAME[table].columns if c.type in (Type.INT64, Type.INT32, Type.FLOAT64)]
    for table in ("kernel_profiles", "kernel_metrics", "kernel_rules", "kernel_summaries", "devices")
}
_WITH_UNIT = ("duration_ns", "static_shared_bytes", "dynamic_shared_bytes", "dram_bytes", "dram_bytes_per_s")
OUTPUT = [
    '==PROF== Profiling "gemm" - 3: 0%....50%....100% - 9 passes',
    "",
    'tensor([1.024, 2,5, "a, b"], device="cuda:0")',
    "epoch 3, loss 1.024.000,50, 12 %",
    '"quoted", he said, "twice"',
    '"0","not a row"',
    "==WARNING== Found outstanding GPU clock reset, trying to revert...Success",
    "1,2,3",
    "\t",
]
Key = tuple[Any, ...]


def numbers(sink: MemorySink, table: str) -> list[dict[str, Any]]:
    """Rows of a table with their numbers, and the texts that tell which they are."""
    keys = ("kernel", "metric", "rule", "section", "item", "metric_unit", "text")
    columns = [
        *(c for c in _NUMBERS[table] if c not in _PLACES),
        *(k for k in keys if k in TABLE_BY_NAME[table].by_name),
    ]
    return [{c: row.get(c) for c in columns} for row in sink.rows(table)]


def everything(sink: MemorySink) -> dict[str, list[dict[str, Any]]]:
    return {table: numbers(sink, table) for table in _NUMBERS}


def read(folder: Path, text: str | bytes) -> MemorySink | None:
    """What the reader makes of a text; None where it refuses it, in one line."""
    try:
        return read_text(folder, text)
    except SourceError as error:
        assert "\n" not in str(error)
        return None


@functools.cache
def twin(path: Path) -> Page:
    return page_of(path)


@functools.cache
def plain_of(path: Path) -> MemorySink:
    with tempfile.TemporaryDirectory() as folder:
        return read_text(Path(folder), twin(path).text())


@pytest.fixture
def plain(path: Path) -> MemorySink:
    return plain_of(path)


def by_launch(sink: MemorySink) -> dict[Key, list[dict[str, Any]]]:
    out = defaultdict(list)
    for row in numbers(sink, "kernel_profiles"):
        out[row["process"], row["id"]].append(row)
    return out


def assert_null_or_same(found: MemorySink, *twins: MemorySink, derived: bool = False) -> int:
    """Every number is that of the launch of the same ID in a twin, or null. Returns how many are null that were not.

    `derived` accepts a column that may come from another metric where its own was lost.
    """
    lost = 0
    known = [by_launch(t) for t in twins]
    for key, rows in by_launch(found).items():
        expected = [row for launches in known for row in launches.get(key, ())]
        assert expected, f"no such launch: {key}"
        for row in rows:
            for column in _NUMBERS["kernel_profiles"]:
                value = row.get(column)
                if column in _PLACES or (derived and column == "tensor_pct"):
                    continue
                if value is None:
                    lost += all(e[column] is not None for e in expected)
                elif derived and column == "dram_bytes":
                    assert any(value == pytest.approx(e[column], rel=0.01) for e in expected)
                else:
                    assert value in [e[column] for e in expected], (key, column)
    return lost


def codes(sink: MemorySink) -> set[str]:
    return {code for code, _ in sink.notes}


@every_page
def test_a_page_reads_like_its_plain_twin(path: Path, plain: MemorySink) -> None:
    """The rewriting itself loses nothing: the launches of the twin are the first of the file."""
    found, expected = numbers(read_file(path), "kernel_profiles"), numbers(plain, "kernel_profiles")
    whole = expected[:-1] if twin(path).shortened and not twin(path).wide else expected
    assert found[: len(whole)] == whole
    assert bool(found) == bool(expected)


def some(path: Path, kinds: Iterable[str], small: int = 2) -> list[str]:
    """All kinds of mutations for a small page, some of them for a large one: together the pages see every kind."""
    kinds = list(kinds)
    if len(twin(path).text()) < 12_000:
        return kinds
    start = PAGES.index(path)
    return [kinds[(start + k * 7) % len(kinds)] for k in range(min(small, len(kinds)))]


@every_page
def test_every_locale_reads_the_same(path: Path, tmp_path: Path, plain: MemorySink) -> None:
    """Each real page tells its locale, so that none is refused."""
    for locale in some(path, LOCALES):
        for speedups in {True, "Estimated Speedup" not in twin(path).header}:
            sink = read(tmp_path, in_locale(twin(path), locale, speedups).text())
            assert sink is not None and everything(sink) == everything(plain), locale


@every_page
def test_both_spellings_of_units_read_the_same(path: Path, tmp_path: Path, plain: MemorySink) -> None:
    for new, locale in ((True, "de_DE"), (False, "en_IN")):
        sink = read_text(tmp_path, in_locale(respelled(twin(path), new), locale).text())
        assert everything(sink) == everything(plain), (new, locale)


@every_page
def test_values_in_base_units_and_in_larger_ones_read_the_same(path: Path, tmp_path: Path, plain: MemorySink) -> None:
    """Durations and bytes, wherever they stay what they are with the digits that are printed."""
    for auto in (True, False):
        changed = rescaled(twin(path), auto)
        for locale in some(path, ("en_US", "de_DE", "fr_FR", "en_IN"), 1):
            sink = read_text(tmp_path, in_locale(changed, locale).text())
            assert numbers(sink, "kernel_profiles") == numbers(plain, "kernel_profiles"), (auto, locale)


@every_page
def test_blank_units_give_null_and_a_note(path: Path, tmp_path: Path, plain: MemorySink) -> None:
    for locale in some(path, ("en_US", "de_DE", "fr_FR", "en_IN"), 1):
        sink = read(tmp_path, in_locale(blanked(twin(path), lambda _, __: True), locale).text())
        if sink is None:
            continue
        assert_null_or_same(sink, plain)
        for row in sink.rows("kernel_profiles"):
            assert all(row.get(column) is None for column in _WITH_UNIT)
        known = any(row.get(c) is not None for row in plain.rows("kernel_profiles") for c in _WITH_UNIT)
        assert ("units_missing" in codes(sink)) >= known
        times = [r for r in sink.rows("kernel_metrics") if r["metric"] in ("Duration", "gpu__time_duration.sum")]
        assert all(r["value"] is None for r in times) and all(r["text"] for r in times)


@every_page
def test_blank_units_of_some_metrics_or_rows_touch_no_other(path: Path, tmp_path: Path, plain: MemorySink) -> None:
    page_, dice = twin(path), random.Random(path.name)
    width = len(page_.header) if page_.wide else len(page_.rows)
    for locale in some(path, ("C", "de_DE"), 1):
        for share in (0.5, 0.05):
            chosen = {k for k in range(width) if dice.random() < share}
            changed = blanked(page_, lambda k, _, chosen=chosen: k in chosen)  # type: ignore[misc]
            sink = read(tmp_path, (changed if locale == "C" else in_locale(changed, locale)).text())
            assert sink is None or assert_null_or_same(sink, plain, derived=True) >= 0


@every_page
def test_a_blank_unit_of_the_duration_alone(path: Path, tmp_path: Path, plain: MemorySink) -> None:
    names = ("Duration", "gpu__time_duration.sum")
    changed = blanked(twin(path), lambda _, name: name in names or name.endswith("(gpu__time_duration.sum)"))
    sink = read_text(tmp_path, in_locale(changed, "en_US").text())
    expected = numbers(plain, "kernel_profiles")
    assert numbers(sink, "kernel_profiles") == [{**row, "duration_ns": None} for row in expected]
    assert ("units_missing" in codes(sink)) == any(row["duration_ns"] for row in expected)


def with_output(page_: Page, dice: random.Random) -> str:
    """The page with lines of the program before, between and behind its rows."""
    out = list(OUTPUT)
    for text in page_.lines():
        out.append(text)
        out += dice.sample(OUTPUT, dice.randint(0, 1) + 1)
    return "\n".join(out)


def torn_front(page_: Page, dice: random.Random) -> str:
    lines = page_.lines()
    for k in dice.sample(range(len(lines)), min(3, len(lines))):
        lines[k] = lines[k][dice.randrange(1, len(lines[k])) :]
    return "\n".join(lines)


def torn_end(page_: Page, dice: random.Random) -> str:
    lines = page_.lines()
    for k in dice.sample(range(len(lines)), min(3, len(lines))):
        lines[k] = lines[k][: dice.randrange(len(lines[k]))]
    return "\n".join(lines)


def torn_by_output(page_: Page, dice: random.Random) -> str:
    """The program's lines come in the midst of rows."""
    lines = page_.lines()
    for k in dice.sample(range(len(lines)), min(5, len(lines))):
        at = dice.randrange(len(lines[k]))
        lines[k] = f"{lines[k][:at]}{dice.choice(OUTPUT)}\n{lines[k][at:]}"
    return "\n".join(lines)


def header_again(page_: Page, dice: random.Random) -> str:
    lines = page_.lines()
    at = dice.randrange(1, len(lines) + 1)
    return "\n".join([*lines[:at], *lines[: 1 + bool(page_.units)], *lines[at:]])


def cut(page_: Page, dice: random.Random) -> str:
    text = page_.text()
    return text[: dice.randrange(len(page_.lines()[0]), len(text))]


@every_page
@pytest.mark.parametrize("change", [torn_front, torn_end, torn_by_output, header_again, cut])
def test_damage_takes_numbers_and_makes_none(
    path: Path, change: Callable[[Page, random.Random], str], tmp_path: Path, plain: MemorySink
) -> None:
    for seed in range(2 if len(twin(path).text()) < 12_000 else 1):
        for locale in some(path, ("en_US", "de_DE", "fr_FR"), 2):
            text = change(in_locale(twin(path), locale), random.Random(f"{path.name}{seed}{locale}"))
            if (sink := read(tmp_path, text)) is not None:
                assert_null_or_same(sink, plain, derived=True)


@every_page
def test_output_of_the_program_byte_marks_and_ends_of_lines_change_nothing(
    path: Path, tmp_path: Path, plain: MemorySink
) -> None:
    german = in_locale(twin(path), "de_DE")
    texts = {
        "output": with_output(german, random.Random(path.name)).encode(),
        "windows": b"\xef\xbb\xbf" + german.text().replace("\n", "\r\n").encode(),
        "utf-16": german.text().encode("utf-16"),
        "blank lines": german.text().replace('"\n"', '"\n\n"').encode(),
        "no end": german.text().rstrip("\n").encode(),
        "latin-1": in_locale(twin(path), "fr_FR old").text().encode("latin-1", "replace"),
    }
    for kind in some(path, texts):
        assert everything(read_text(tmp_path, texts[kind])) == everything(plain), kind


@every_page
def test_runs_that_were_appended_are_read_each_in_its_own_locale(path: Path, tmp_path: Path, plain: MemorySink) -> None:
    """In another locale, another order of columns, other units; or after a header that was torn."""
    first, expected = twin(path), numbers(plain, "kernel_profiles")
    for locale, other in (("de_DE", "en_US"), ("en_IN", "fr_FR")):
        second = reordered(respelled(first, new=True), seed=len(locale))
        text = in_locale(first, locale).text() + "done\n" + in_locale(second, other).text()
        assert numbers(read_text(tmp_path, text), "kernel_profiles") == [*expected, *expected]
        head, _, rest = in_locale(second, other).text().partition("\n")
        parts = {"front": head[20:], "half": head[: len(head) // 2], "middle": head[: len(head) // 3], "end": head[:-5]}
        for part in (parts[kind] for kind in some(path, parts, 1)):
            torn = read(tmp_path, in_locale(first, locale).text() + part + "\n" + rest)
            assert torn is None or assert_null_or_same(torn, plain, derived=True) >= 0


@every_page
def test_the_order_of_columns_changes_nothing(path: Path, tmp_path: Path, plain: MemorySink) -> None:
    for seed in range(2):
        sink = read_text(tmp_path, in_locale(reordered(twin(path), seed), "de_DE").text())
        assert numbers(sink, "kernel_profiles") == numbers(plain, "kernel_profiles")


@every_page
def test_pages_that_were_saved_without_quotes(path: Path, tmp_path: Path, plain: MemorySink) -> None:
    """Only cells with commas have quotes: the same. None has: what cannot be told apart is left out."""
    out = io.StringIO()
    page_ = in_locale(twin(path), "en_US")
    csv.writer(out, lineterminator="\n").writerows([page_.header, *([page_.units] if page_.units else []), *page_.rows])
    assert numbers(read_text(tmp_path, out.getvalue()), "kernel_profiles") == numbers(plain, "kernel_profiles")
    for locale in ("en_US", "de_DE"):
        bare = read(tmp_path, in_locale(twin(path), locale).text().replace('"', ""))
        assert bare is None or known_launches_null_or_same(bare, plain)


def known_launches_null_or_same(found: MemorySink, plain: MemorySink) -> bool:
    """As above, where names of kernels may be cut at a comma."""
    rows, expected = numbers(found, "kernel_profiles"), numbers(plain, "kernel_profiles")
    return all(
        row[c] is None or any(row["id"] == e["id"] and row[c] == e[c] for e in expected)
        for row in rows
        for c in _NUMBERS["kernel_profiles"]
        if c not in _PLACES
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("1,234,567", "1,024"), ("1.024",)),  # German, with nothing that tells
        (("1.234.567", "1.024"), ("1,024",)),
        (("12,34,567", "1,234"), ("1.024",)),
        (("32768", "1.02"), ("1.024",)),  # C, then German
        (("1,234,567",), ("36,88", "1,024")),
    ],
)
def test_the_locale_of_one_run_does_not_decide_for_another(
    tmp_path: Path, first: tuple[str, ...], second: tuple[str, ...]
) -> None:
    runs = [page(*(metric(f"m{k}", "inst", v) for k, v in enumerate(values))) for values in (first, second)]
    sink = read(tmp_path, "".join(runs))
    if sink is not None:
        assert [r["value"] for r in sink.rows("kernel_metrics")][-1] == 1.024 and second[0] == "36,88"


def test_groups_of_every_size_in_one_file(tmp_path: Path) -> None:
    sink = read_text(tmp_path, page(*(metric("m", "inst", v) for v in ("12,34,567", "1,234", "1,234,567.50", "0.524"))))
    assert [r["value"] for r in sink.rows("kernel_metrics")] == [1234567, 1234, 1234567.5, 0.524]


def test_a_group_does_not_begin_with_a_zero(tmp_path: Path) -> None:
    sink = read_text(tmp_path, page(metric("m", "inst", "0.524"), metric("m", "inst", "0")))
    assert [r["value"] for r in sink.rows("kernel_metrics")] == [0.524, 0]


@pytest.mark.parametrize(("printed", "value"), [("5.078", 5.078), ("5,078", 5.078), ("14.1", 14.1), ("80", 80)])
@pytest.mark.parametrize("threads", ["32.768", "32,768"])
def test_an_estimated_speedup_is_below_1000_in_every_locale(
    tmp_path: Path, printed: str, value: float, threads: str
) -> None:
    row = line([*launch(), "SpeedOfLight", "", "", "", "Rule", "OPT", "text", "global", printed])
    sink = read_text(tmp_path, page(metric("Threads", "thread", threads), row))
    assert [r["speedup_pct"] for r in sink.rows("kernel_rules")] == [value]


def test_percent_above_100_and_labels_without_unit(tmp_path: Path) -> None:
    rows = [metric("Threads", "thread", "32.768"), metric("Compute (SM) Throughput", "%", "1.024,55")]
    rows += [metric("Memory Throughput", "", "61,84"), metric("L2 Hit Rate", "%", "100,10")]
    sink = read_text(tmp_path, page(*rows))
    (row,) = sink.rows("kernel_profiles")
    assert (row["compute_pct"], row.get("memory_pct"), row.get("dram_bytes_per_s"), row["l2_hit_pct"]) == (
        1024.55,
        None,
        None,
        100.1,
    )
    assert "units_missing" in codes(sink)


def test_a_rate_is_no_amount(tmp_path: Path) -> None:
    """The last name of a header that was cut at the end of a cell's word."""
    text = wide(["dram__bytes.sum"], ["Gbyte/s"], (launch(), ["196.46"]))
    assert read_text(tmp_path, text).rows("kernel_profiles")[0].get("dram_bytes") is None


def test_operations_that_two_units_count_are_counted_once(tmp_path: Path) -> None:
    name = "{}__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed"
    names = [name.format("sm"), name.format("smsp"), "sm__cycles_elapsed.avg", "smsp__cycles_elapsed.avg"]
    text = wide(names, ["inst/cycle"] * 2 + ["cycle"] * 2, (launch(), ["2", "2", "1000", "1000"]))
    assert read_text(tmp_path, text).rows("kernel_profiles")[0]["flop"] == 4000


def test_a_sum_whose_parts_were_torn_is_null(tmp_path: Path) -> None:
    names = [f"sm__sass_thread_inst_executed_op_f{kind}_pred_on.sum" for kind in ("add", "mul", "fma")]
    rows = [metric(name, "inst", "8", id_=id_) for id_ in range(3) for name in names]
    rows[5] = rows[5][:-40]
    sink = read_text(tmp_path, page(*rows))
    assert [row["flop"] for row in sink.rows("kernel_profiles")] == [32, None, None]
    assert "rows_damaged" in codes(sink)


def test_a_sum_whose_parts_have_no_value_is_null(tmp_path: Path) -> None:
    names = [f"sm__sass_thread_inst_executed_op_f{kind}_pred_on.sum" for kind in ("add", "mul", "fma")]
    text = wide(names, ["inst"] * 3, (launch(), ["8", "8", "n/a"]), (launch(1), ["8", "8", "8"]))
    assert [row["flop"] for row in read_text(tmp_path, text).rows("kernel_profiles")] == [None, 32]


@st.composite
def tables(draw: st.DrawFn) -> tuple[Page, str]:
    """A small details page of the C locale, with durations, bytes and shares, and a locale to print it in."""
    value = st.one_of(
        st.integers(0, 10**7).map(str),
        st.tuples(st.integers(0, 10**6), st.integers(0, 99)).map(lambda p: f"{p[0]}.{p[1]:02}"),
        st.sampled_from(["1024", "1.02", "999", "1000.00", "n/a", "(!) nan", "CachePreferNone"]),
    )
    kinds = [("Duration", "us"), ("Memory Throughput", "%"), ("Memory Throughput", "Gbyte/s"), ("m__x", "inst")]
    kinds += [("Duration", ""), ("L2 Hit Rate", ""), ("dram__bytes.sum", "Mbyte"), ("dram__bytes.sum", "")]
    chosen = draw(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(kinds), value), max_size=8))
    who = [str(c) for c in launch()]
    rows = [(str(id_), *who[1:], "SOL", name, unit, text, "") for id_, (name, unit), text in sorted(chosen)]
    return Page(RULES, None, tuple(rows)), draw(st.sampled_from(sorted(LOCALES)))


@given(tables())
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_small_pages_give_their_numbers_or_are_refused(tmp_path: Path, table: tuple[Page, str]) -> None:
    small, locale = table
    who = small.where("Metric Value")
    expected = everything(read_text(tmp_path, small.text()))
    sink = read(tmp_path, in_locale(small, locale).text())
    if sink is None:
        assert any(localised(row[who], locale, mixed=False).count(mark) for row in small.rows for mark in ".,")
    else:
        found = everything(sink)
        for row in found["kernel_metrics"] + expected["kernel_metrics"]:
            row["text"] = None if row["text"] and row["text"][0].isdigit() else row["text"]
        assert found == expected
