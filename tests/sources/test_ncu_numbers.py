"""Numbers of every locale: decided once for a file, refused where nothing decides, units in base units."""

from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.ncu_writer import LOCALES, SOL, launch, metric, page, printed, read_text, wide
from traceanalyzer.errors import SourceError
from traceanalyzer.sources.ncu_csv.numbers import StyleFinder, StyleUndecidedError, is_missing, split_instances
from traceanalyzer.sources.ncu_csv.units import base_unit

GRID = 64 * 4


def values(sink):
    return [row["value"] for row in sink.rows("kernel_metrics")]


@pytest.mark.parametrize("locale", LOCALES)
@given(data=st.data())
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_details_of_every_locale_round_trip(tmp_path, locale, data):
    """A known size with a separator anchors the file, whatever else stands in it."""
    numbers = data.draw(st.lists(st.tuples(st.integers(-(10**13), 10**13), st.sampled_from((0, 2))), min_size=1))
    rows = [metric(f"m{k}", "inst", printed(v, d, locale)) for k, (v, d) in enumerate(numbers)]
    anchor = metric("Threads", "thread", printed(GRID * 128, 0, locale))
    percent = metric("Occupancy", "%", printed(9072, 2, locale))
    sink = read_text(tmp_path, page(percent, anchor, *rows))
    assert values(sink)[2:] == [float(Decimal(v).scaleb(-d)) for v, d in numbers]


@pytest.mark.parametrize("locale", LOCALES)
@given(data=st.data())
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_the_raw_page_keeps_the_point_in_decimals_of_every_locale(tmp_path, locale, data):
    whole = data.draw(st.lists(st.integers(0, 10**13), min_size=1, max_size=20))
    doubles = data.draw(st.lists(st.integers(0, 10**13), min_size=1, max_size=20))
    blocks = data.draw(st.integers(1000, 2**31 - 1))
    names = [f"m__{k}" for k in range(len(whole) + len(doubles))]
    cells = [printed(v, 0, locale) for v in whole] + [printed(v, 6, "C") for v in doubles]
    # The count of threads is one of the doubles: its point tells nothing of the locale.
    text = wide(
        ["launch__grid_size", "launch__thread_count", *names],
        ["block", "thread", *[""] * len(names)],
        (launch(grid=f"({blocks}, 1, 1)"), [printed(blocks, 0, locale), f"{blocks * 128}.000000", *cells]),
    )
    expected = [float(v) for v in whole] + [float(Decimal(v).scaleb(-6)) for v in doubles]
    assert values(read_text(tmp_path, text)) == [blocks, blocks * 128, *expected]


@pytest.mark.parametrize(
    ("rows", "value"),
    [
        ([("Threads", "thread", "32.768"), ("Duration", "nsecond", "249.216")], 249216),
        ([("Threads", "thread", "32,768"), ("Duration", "ns", "249,216")], 249216),
        ([("Threads", "thread", "32768"), ("Duration", "msecond", "249.216")], 249216000),
        ([("SM", "%", "90,72"), ("Duration", "nsecond", "249.216")], 249216),
        ([("SM", "%", "90.72"), ("Duration", "ns", "249,216")], 249216),
        ([("Rate", "byte/s", "1.024.000,50"), ("Duration", "ns", "249.216")], 249216),
        ([("Rate", "byte/s", "1'024'000.50"), ("Duration", "ns", "249'216")], 249216),
        ([("Rate", "byte", "3,79,490"), ("Duration", "ns", "249,216")], 249216),
        ([("Cycles", "cycle", "379\u202f490"), ("Duration", "us", "249,22")], 249220),
    ],
)
def test_anchors_decide_for_the_file(tmp_path, rows, value):
    sink = read_text(tmp_path, page(*(metric(*row) for row in rows)))
    assert [row["duration_ns"] for row in sink.rows("kernel_profiles")] == [value]


@pytest.mark.parametrize("text", ["249.216", "249,216"])
def test_an_ambiguous_file_is_refused_in_one_line(tmp_path, text):
    with pytest.raises(SourceError) as error:
        read_text(tmp_path, page(metric("Duration", "us", text)))
    assert "LC_ALL=C" in str(error.value) and text in str(error.value) and "\n" not in str(error.value)


def test_several_notations_in_one_file_are_refused(tmp_path):
    rows = metric("Rate", "byte", "1.024.000,50"), metric("Rate", "byte", "1,024,000.50")
    with pytest.raises(SourceError, match="several ways"):
        read_text(tmp_path, page(*rows))


def test_without_separators_nothing_needs_deciding():
    finder = StyleFinder()
    for text in ("5", "12", "9.07", "n/a", "PolicySpread", "2025.3.1.0", "0-31"):
        finder.see(text, "", mixed=False)
    assert finder.decide().mark == "."
    finder.see("1.024.000", "", mixed=False)
    with pytest.raises(StyleUndecidedError):
        finder.decide()


@pytest.mark.parametrize("text", ["", "n/a", "no data", "nan", "-nan", "inf", "(!) nan", "(!) n/a", "N/A"])
def test_missing_is_null_and_not_zero(tmp_path, text):
    assert is_missing(text)
    sink = read_text(tmp_path, page(metric("Memory Throughput", "%", text), metric("Duration", "ns", "12")))
    assert values(sink) == [None, 12.0]
    assert sink.rows("kernel_profiles")[0].get("memory_pct") is None


def test_words_and_instances_are_kept_as_text(tmp_path):
    rows = metric("Cache", "", "CachePreferNone"), metric("Per block", "", "2338 (8; 8; 16)")
    rows = sorted((r["value"] or 0, r["text"]) for r in read_text(tmp_path, page(*rows)).rows("kernel_metrics"))
    assert rows == [(0, "CachePreferNone"), (2338.0, "(8; 8; 16)")]
    assert split_instances("f(int) (8)") == ("f(int) (8)", None)


@pytest.mark.parametrize(
    ("printed_unit", "name", "factor"),
    [
        ("second", "ns", "1000000000"),
        ("s", "ns", "1000000000"),
        ("msecond", "ns", "1000000"),
        ("usecond", "ns", "1000"),
        ("us", "ns", "1000"),
        ("nsecond", "ns", "1"),
        ("Kbyte", "byte", "1000"),
        ("Mbyte", "byte", "1000000"),
        ("Kbyte/block", "byte/block", "1000"),
        ("Gbyte/second", "byte/s", "1000000000"),
        ("Tbyte/s", "byte/s", "1000000000000"),
        ("cycle/nsecond", "Hz", "1000000000"),
        ("cycle/usecond", "Hz", "1000000"),
        ("Ghz", "Hz", "1000000000"),
        ("hz", "Hz", "1"),
        ("sector/ns", "sector/s", "1000000000"),
        ("%/Kbyte", "%/byte", "0.001"),
        ("inst/cycle", "inst/cycle", "1"),
        ("", "", "1"),
        ("%/", "%/", "1"),
    ],
)
def test_units_of_all_versions(printed_unit, name, factor):
    unit = base_unit(printed_unit)
    assert (unit.name, unit.factor) == (name, Decimal(factor))


def test_each_row_has_a_unit_of_its_own(tmp_path):
    rows = [
        metric("Dynamic Shared Memory Per Block", "Kbyte/block", "8.19", id_=0),
        metric("Duration", "second", "51.95", id_=0),
        metric("Dynamic Shared Memory Per Block", "byte/block", "512", id_=1),
        metric("Duration", "us", "0.0005", id_=1),
    ]
    found = read_text(tmp_path, page(*rows)).rows("kernel_profiles")
    assert [(r["dynamic_shared_bytes"], r["duration_ns"]) for r in found] == [(8190, 51_950_000_000), (512, 1)]
    assert SOL
