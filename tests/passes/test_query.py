"""SQL over the store and over results of passes."""

import duckdb
import pytest

import traceanalyzer
from tests.support.store_builder import Capture, store_of
from traceanalyzer.errors import UsageError
from traceanalyzer.passes import results
from traceanalyzer.passes.registry import PASSES
from traceanalyzer.passes.results import RESULTS
from traceanalyzer.schema.column import Type
from traceanalyzer.schema.kinds import EventKind
from traceanalyzer.schema.tables import TABLE_BY_NAME


@pytest.fixture
def store(tmp_path):
    one = (
        Capture()
        .event(EventKind.STEP_MARK, "ProfilerStep#0", 0, 9000)
        .event(EventKind.PYTHON_FRAME, "train.py(1): main", 0, 9000)
        .launch(0, 50, 1)
        .kernel(100, 200, 1)
        .launch(1000, 1100, 2)
        .kernel(1200, 1500, 2, name="add")
    )
    return store_of(tmp_path / "s.duckdb", one, Capture().kernel(0, 10).kernel(50, 60))


def rows(store, text, **selection):
    with traceanalyzer.open(store) as traces:
        return [tuple(r.values()) for r in traces.sql(text, **selection).rows.rows()]


def test_results_go_by_their_own_names_and_by_those_of_their_pass(store):
    assert {"gap_pieces", "gaps", "causes", "stacks", "ledger", "kernels"} <= RESULTS.keys()
    assert {"gaps_devices", "steps_steps", "kernels_kernels", "gaps_gaps"} <= RESULTS.keys()
    assert not RESULTS.keys() & TABLE_BY_NAME.keys()
    for name, each in PASSES.items():
        assert {f"{name}_{spec.name}" for spec in each.tables} <= RESULTS.keys()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (
            "SELECT * FROM throughput",
            "no table throughput; did you mean throughput_kernels or throughput_operators or throughput_peaks?",
        ),
        ("SELECT * FROM gpu_op", "no table gpu_op; did you mean gpu_ops or ops_ops? There are also runs, captures,"),
        ("SELECT * FROM zzzzz", "no table zzzzz; there are runs, captures,"),
        ("SELECT nam FROM gpu_ops", 'the query failed: Referenced column "nam" not found in FROM clause! Candidate'),
        ("SELECT coutn(*) FROM gpu_ops", 'with name coutn does not exist! Did you mean "count"?'),
    ],
)
def test_an_unknown_name_is_answered_with_those_that_there_are(store, query, said):
    with traceanalyzer.open(store) as traces, pytest.raises(UsageError) as caught:
        traces.sql(query)
    assert said in str(caught.value) and "LINE" not in str(caught.value)
    if "no table" in said:
        assert all(name in str(caught.value) for name in (*TABLE_BY_NAME, *RESULTS))


def test_every_result_can_be_queried(store):
    for name, result in RESULTS.items():
        with traceanalyzer.open(store) as traces:
            frame = traces.sql(f"SELECT * FROM {name}").rows
        assert list(frame.columns) == [c.name for c in result.spec.columns]


def test_results_are_those_of_the_questions(store):
    assert rows(store, "SELECT sum(duration_ns) FROM gaps") == [(1000 + 40,)]
    assert rows(store, "SELECT rank, sum(idle_ns) FROM causes GROUP BY rank ORDER BY rank") == [(0, 1000), (1, 40)]
    assert rows(store, "SELECT sum(ns) FROM Ledger WHERE rank = 0") == [(1400,)]
    assert rows(store, "SELECT device_duration_ns FROM steps_steps") == [(1400,)]
    assert rows(
        store,
        "SELECT d.span_ns, k.kernel FROM gaps_devices d JOIN kernels k USING (capture) WHERE d.rank = 0"
        " ORDER BY k.total_ns DESC",
    ) == [(1400, "add"), (1400, "gemm")]
    (stack,) = rows(store, "SELECT stack[1] FROM stacks WHERE cause = 'python' AND rank = 0")
    assert stack == ("main (train.py:1)",)
    assert rows(
        store,
        "SELECT sum(p.end_ns - p.start_ns) FROM gap_pieces p JOIN gaps g USING (capture, device, gap) WHERE g.rank = 0",
    ) == [(1000,)]


def test_stored_tables_keep_their_names(store):
    assert rows(store, "SELECT step, name FROM steps") == [(0, "ProfilerStep#0")]
    assert rows(store, "WITH gaps AS (SELECT 7 AS x) SELECT x FROM gaps") == [(7,)]


def test_results_follow_the_selection_and_are_not_cut(store):
    assert rows(store, "SELECT count(*) FROM gaps", rank="1") == [(1,)]
    assert rows(store, "SELECT count(*) FROM gaps, gap_pieces", top=1)[0][0] > 1
    assert rows(store, "SELECT count(*) FROM gaps_devices", window="500:501") == [(0,)]


def test_only_what_a_query_names_is_worked_out(store, monkeypatch):
    asked = []
    monkeypatch.setattr(results, "PASSES", {name: lambda scope, n=name: asked.append(n) for name in PASSES})
    rows(store, "SELECT 'gaps, ledger' AS text, kind FROM gpu_ops -- causes")
    assert asked == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1::TINYINT", Type.INT64),
        ("sum(start_ns)", Type.INT64),
        ("2::HUGEINT ** 70 // 1", Type.FLOAT64),
        ("(2::HUGEINT * 9223372036854775807)", Type.FLOAT64),
        ("1.5", Type.FLOAT64),
        ("avg(start_ns)", Type.FLOAT64),
        ("true", Type.BOOL),
        ("'x'", Type.TEXT),
        ("NULL", Type.TEXT),
        ("DATE '2026-01-02'", Type.TEXT),
        ("['a', 'b']", Type.TEXT),
    ],
)
def test_columns_have_the_types_of_the_query(store, text, kind):
    with traceanalyzer.open(store) as traces:
        frame = traces.sql(f"SELECT {text} AS x FROM gpu_ops").rows
    assert frame.spec.columns[0].type is kind
    assert frame.to_arrow().num_rows == len(frame.to_polars()) == len(frame)


def test_integers_stay_exact(store):
    assert rows(store, "SELECT 2::HUGEINT * 9223372036854775807") == [(2 * (2**63 - 1),)]


def test_lists_are_lists_even_in_an_empty_table(store):
    assert rows(store, "SELECT len(stack) FROM stacks", window="500:501") == []
    assert rows(store, "SELECT count(*) FROM stacks WHERE list_contains(stack, 'main (train.py:1)')")[0][0] > 0


def test_no_file_is_opened_while_the_tables_of_a_query_are_found(store, tmp_path):
    (tmp_path / "secret.csv").write_text("a\n1\n")
    for _ in range(2):
        with traceanalyzer.open(store) as traces:
            for text in (f"SELECT * FROM read_csv('{tmp_path}/secret.csv')", f"SELECT * FROM '{tmp_path}/secret.csv'"):
                with pytest.raises(UsageError):
                    traces.sql(text)
            assert len(traces.sql("SELECT * FROM causes").rows)


@pytest.mark.parametrize("text", ["SELECT * FROM nothing", "DROP TABLE gaps", "SELECT 1; SELECT 2", "COPY gaps TO 'x'"])
def test_what_is_no_question_is_refused(store, text):
    with traceanalyzer.open(store) as traces, pytest.raises(UsageError):
        traces.sql(text)
    with duckdb.connect(str(store), read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM gpu_ops").fetchone() == (4,)
