"""Training logs: CSV with columns in any order, Megatron, nanoGPT, and the times of a loader."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.reading import kept_of_cut, read, read_text, samples
from tests.support.real_traces import MISSING, PUBLIC
from traceanalyzer.errors import SourceError
from traceanalyzer.ingestion import recognise
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.training_log.columns import Role, meaning_of
from traceanalyzer.sources.training_log.table import header_of

REAL = PUBLIC / "telemetry" / "logs"
real = pytest.mark.skipif(not REAL.is_dir(), reason=MISSING)


def of(sink, metric):
    """(step, value) of a metric."""
    return [(tick, value) for name, tick, value in samples(sink, "metric", "tick", "value") if name == metric]


def codes(sink):
    return [code for code, _ in sink.notes]


@pytest.mark.parametrize(
    ("name", "role", "seconds"),
    [
        ("step", Role.STEP, None),
        ("Iteration", Role.STEP, None),
        ("step_time_ms", Role.STEP_TIME, 1e-3),
        ("step time (s)", Role.STEP_TIME, 1.0),
        ("iter_time[us]", Role.STEP_TIME, 1e-6),
        ("elapsed time per iteration (ms)", Role.STEP_TIME, 1e-3),
        ("time", Role.TIME, None),
        ("elapsed_s", Role.TIME, 1.0),
        ("loader_s", Role.LOADER_TIME, 1.0),
        ("data_time", Role.LOADER_TIME, None),
        ("samples per second", Role.SAMPLES_PER_SECOND, None),
        ("samples/sec", Role.SAMPLES_PER_SECOND, None),
        ("samples_per_s", Role.SAMPLES_PER_SECOND, None),
        ("tok/s", Role.TOKENS_PER_SECOND, None),
        ("TFLOPs", Role.TFLOPS, None),
        ("throughput per GPU (TFLOP/s/GPU)", Role.TFLOPS, None),
        ("lm loss", Role.LOSS, None),
        ("lr", None, None),
        ("loss scale", None, None),
        ("grad_norm", None, None),
        ("utilization.gpu [%]", None, None),
    ],
)
def test_names_of_columns(name, role, seconds):
    meaning = meaning_of(name)
    assert (meaning.role, meaning.seconds) == (role, seconds)


@pytest.mark.parametrize(
    ("line", "is_one"),
    [
        ("step,time,loss,samples", True),
        ("loss;samples;step", True),
        ("# iteration\tstep_time_ms", True),
        ("batch,time", True),
        ("loader_s", True),
        ("loader seconds per batch", True),
        ("step_time", True),
        ("ranks,throughput", False),
        ("timestamp, index, utilization.gpu [%], power.draw [W]", False),
        ("step,name", False),
        ("step", False),
        ("time,value", False),
        ("", False),
    ],
)
def test_headers(line, is_one):
    assert (header_of(line) is not None) is is_one


def test_step_time_loss_samples(tmp_path):
    sink = read_text(
        tmp_path, "step,step_time_ms,loss,samples\n0,412.5,10.8,256\n1,200,nan,256\n", "t.csv", "training_log"
    )
    assert samples(sink, "metric", "metric_unit", "tick", "value", "t_ns") == [
        ("step_time", "s", 0, 0.4125, None),
        ("loss", None, 0, 10.8, None),
        ("samples", None, 0, 256.0, None),
        ("step_time", "s", 1, 0.2, None),
        ("loss", None, 1, None, None),
        ("samples", None, 1, 256.0, None),
    ]
    assert not sink.notes


def test_time_that_only_grows_is_the_time_since_the_start(tmp_path):
    """Logged every ten steps; so are samples that only grow all samples so far."""
    rows = [(10 * n, 2.5 * n + 1, 640 * n) for n in range(9)]
    text = "samples,elapsed_s,step\n" + "".join(f"{total},{time},{step}\n" for step, time, total in rows)
    sink = read_text(tmp_path, text)
    assert of(sink, "step_time") == [(0, None), *((10 * n, 0.25) for n in range(1, 9))]
    assert of(sink, "samples") == [(0, None), *((10 * n, 64.0) for n in range(1, 9))]
    assert of(sink, "consumed_samples")[-1] == (80, 5120.0)
    assert not sink.notes


@pytest.mark.parametrize(
    ("times", "step_times", "noted"),
    [
        ([0.5, 0.4, 0.45, 0.5], [0.5, 0.4, 0.45, 0.5], ["unit_assumed"]),
        ([0.5, 0.9, 1.35, 1.85], [None, 0.4, 0.45, 0.5], ["unit_assumed"]),
        ([0.4, 0.4, 0.4], [0.4, 0.4, 0.4], ["unit_assumed"]),
        ([100 + n for n in range(8)], [None, *[1.0] * 7], ["unit_assumed"]),
        ([1.0, 1.1, 1.15], None, ["time_unclear"]),
        ([0.5, 0.9], None, ["time_unclear"]),
    ],
)
def test_time_is_of_a_step_or_runs_on(tmp_path, times, step_times, noted):
    sink = read_text(tmp_path, "step,time,loss\n" + "".join(f"{n},{t},1\n" for n, t in enumerate(times)))
    assert codes(sink) == noted
    if step_times is None:
        assert of(sink, "time") == list(enumerate(times)) and not of(sink, "step_time")
    else:
        assert of(sink, "step_time") == [(n, pytest.approx(t)) for n, t in enumerate(step_times)]


@pytest.mark.parametrize(
    "stamps",
    [
        ["1767225600.5", "1767225601.0", "1767225602.5"],
        ["1767225600500", "1767225601000", "1767225602500"],
        ["2026-01-01 00:00:00.5", "2026-01-01T00:00:01Z", "2026-01-01T01:00:02.5+01:00"],
    ],
)
def test_times_of_day(tmp_path, stamps):
    sink = read_text(tmp_path, "step,time,loss\n" + "".join(f"{n},{t},1\n" for n, t in enumerate(stamps)))
    at = [1767225600_500000000, 1767225601 * 10**9, 1767225602_500000000]
    assert [t for name, t in samples(sink, "metric", "t_ns") if name == "loss"] == at
    assert of(sink, "step_time") == [(0, None), (1, pytest.approx(0.5)), (2, pytest.approx(1.5))]
    assert (sink.facts.start_ns, sink.facts.utc_offset_ns) == (at[0], 0) and not sink.notes


def test_a_clock_that_starts_anew_gives_no_negative_step(tmp_path):
    times = [1, 2, 3, 4, 0.5, 1.5, 2.5]
    sink = read_text(tmp_path, "step,elapsed_s\n" + "".join(f"{n},{t}\n" for n, t in enumerate(times)))
    assert [v for _, v in of(sink, "step_time")] == [None, 1.0, 1.0, 1.0, None, 1.0, 1.0]
    assert codes(sink) == ["started_anew"]


def test_other_columns_keep_their_names_and_texts_are_left_out(tmp_path):
    text = "step,loss,lr,phase,mem [GiB],world_size\n1,2.5,1e-4,train,70,16\n2,2.4,N/A,train,71,16\n"
    sink = read_text(tmp_path, text)
    assert of(sink, "lr") == [(1, 1e-4), (2, None)] and of(sink, "mem [GiB]") == [(1, 70.0), (2, 71.0)]
    assert not of(sink, "phase") and sink.facts.world_size == 16
    assert ("mem [GiB]", "GiB") in samples(sink, "metric", "metric_unit")


def test_decimal_commas_and_torn_rows(tmp_path):
    sink = read_text(
        tmp_path, "step;step_time_s;loss\n1;0,25;2,5\n2;0,2\n3;0,25;x\n4;0,5;2;1\nstep;step_time_s;loss\n5;1;1\n"
    )
    assert of(sink, "step_time") == [(1, 0.25), (2, 0.2), (5, 1.0)] and of(sink, "loss") == [(1, 2.5), (5, 1.0)]
    assert sink.notes["torn_lines", "Rows that are torn or hold no numbers were left out."] == 2


@pytest.mark.parametrize(
    ("text", "noted"),
    [
        ("batch,time\n0,0.5\n1,0.25\n2,0.3\n", ["unit_assumed"]),
        ("batch,time_ms\n0,500\n1,250\n2,300\n", []),
        ("batch,elapsed_s\n0,1\n1,1.25\n2,1.55\n", None),
        ("loader_s\n0.5\n0.25\n0.3\n", []),
        ("# loader milliseconds\n500\n250\n300\n", []),
        ("step,loader_ms\n0,500\n1,250\n2,300\n", []),
    ],
)
def test_a_loader_alone(tmp_path, text, noted):
    sink = read_text(tmp_path, text, "loader.csv", "training_log")
    first = 0.5 if noted is not None else None
    assert of(sink, "loader_time") == [(0, first), (1, pytest.approx(0.25)), (2, pytest.approx(0.3))]
    assert {(m, u) for m, u in samples(sink, "metric", "metric_unit")} == {("loader_time", "s")}
    assert codes(sink) == (noted or [])


def test_a_last_row_without_an_end_may_have_lost_digits(tmp_path):
    sink = read_text(tmp_path, "step,step_time_s\n1,0.25\n2,0.2")
    assert of(sink, "step_time") == [(1, 0.25)] and codes(sink) == ["truncated"] and not sink.facts.whole


MEGATRON = (
    "vm-1: using world size: 16, data-parallel-size: 16\n"
    "vm-2:  iteration        1/       5 | consumed samples:         2048 | elapsed time per iteration (ms): 76015.3 |"
    " learning rate: 1.200E-07 | global batch size:  2048 | lm loss: 1.100492E+01 | loss scale: 2048.0 |"
    " samples per second: 26.942 | TFLOPs: 147.61 |\n"
)


def test_megatron(tmp_path):
    sink = read_text(tmp_path, MEGATRON, source="training_log")
    assert samples(sink, "metric", "metric_unit", "tick", "value") == [
        ("consumed samples", None, 1, 2048.0),
        ("step_time", "s", 1, pytest.approx(76.0153)),
        ("learning rate", None, 1, 1.2e-7),
        ("samples", None, 1, 2048.0),
        ("loss", None, 1, 11.00492),
        ("loss scale", None, 1, 2048.0),
        ("samples_per_second", "samples/s", 1, 26.942),
        ("tflops", "TFLOP/s", 1, 147.61),
    ]
    assert (sink.facts.world_size, sink.facts.host) == (16, "vm-2") and not sink.notes


@pytest.mark.parametrize(
    "prefix",
    ["", " ", "[2024-06-01 10:00:00] ", "[default0]:", "[1,0]<stdout>:", "0: ", "node-1.local: [INFO] ", "\x1b[32m"],
)
@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("step:13/1393 train_time:370ms step_avg:123.47ms", {"step_avg": 123.47}),
        ("iter 10: loss 4.1234, time 120.50ms, mfu 12.50%", {"loss": 4.1234, "step_time": 0.1205, "mfu": 12.5}),
        (
            "step 10 | loss: 9.5 | lr 6.0e-4 | dt: 338.9ms | tok/sec: 1546",
            {"loss": 9.5, "lr": 6e-4, "step_time": 0.3389, "tokens_per_second": 1546},
        ),
        (
            "step 10/19560 | loss 11.0 (+nanz)| norm 15.3 (+nanz)| 3.00 ms | 47.6% bf16 MFU | 174000 tok/s",
            {"loss": 11.0, "norm": 15.3, "step_time": 0.003, "tokens_per_second": 174000},
        ),
        (
            " iteration 10/ 100 | elapsed time per iteration (ms): 250.0 | throughput per GPU (TFLOP/s/GPU): 400.1 |",
            {"step_time": 0.25, "tflops": 400.1},
        ),
    ],
)
def test_lines_of_steps(tmp_path, prefix, line, found):
    sink = read_text(tmp_path, f"import torch\nprint(f'step:{{step}}/{{n}}')\n{prefix}{line}\nbye\n")
    assert {m: pytest.approx(v) for m, v in samples(sink, "metric", "value")} == found


def test_train_time_of_nanogpt_runs_on(tmp_path):
    lines = ["0/9 val_loss:10.8 train_time:0ms step_avg:nanms", "1/9 train_time:500ms step_avg:nanms"]
    lines += ["2/9 train_time:640ms step_avg:nanms", "3/9 train_time:120ms step_avg:120.0ms"]
    lines += ["5/9 val_loss:3.5 train_time:380ms step_avg:128.00ms", "5/9 train_time:381ms step_avg:128.01ms"]
    sink = read_text(tmp_path, "".join(f"step:{line}\n" for line in lines))
    expected = [(1, 0.5), (2, pytest.approx(0.14)), (5, pytest.approx(0.13))]
    assert of(sink, "step_time") == expected
    assert of(sink, "val_loss") == [(0, 10.8), (5, 3.5)] and of(sink, "step_avg")[:2] == [(0, None), (1, None)]
    assert codes(sink) == ["started_anew"]


def test_steps_may_come_late_in_a_file(tmp_path):
    text = "x = 1  # source code\n" * 8000 + MEGATRON
    assert len(text) > 2 * 65536
    assert of(read_text(tmp_path, text), "tflops") == [(1, 147.61)]


@pytest.mark.parametrize(
    "text",
    ["", "step,time\n", "step,loss\na,b\n", "ranks,throughput\n1,5\n", "iteration 5 of 7\n", "{}", "name,value\nx,1\n"],
)
def test_other_files_are_not_taken_for_it(tmp_path, text):
    (tmp_path / "t.csv").write_text(text)
    source = recognise(TraceFile(tmp_path / "t.csv"))
    assert source is None or source.name != "training_log"


def test_a_table_without_a_whole_row_is_refused_in_one_line(tmp_path):
    with pytest.raises(SourceError, match="without a whole step"):
        read_text(tmp_path, "step,step_time_s\n1,0.25")


ROWS = b"".join(b"%d,2%d,1%d.5,256,1e-4\n" % (n, n, n) for n in range(9))
CUTS = {
    "t.csv": b"step,step_time_ms,loss,samples,lr\n" + ROWS,
    "m.log": MEGATRON.encode() * 2,
    "n.txt": b"".join(b"step:%d/99 train_time:%dms step_avg:12%d.5ms\n" % (n, 120 * n, n) for n in range(12)),
}


@pytest.mark.parametrize("name", CUTS)
def test_cut_at_any_byte_no_number_is_wrong(tmp_path, name):
    whole = kept_of_cut(tmp_path, CUTS[name], len(CUTS[name]), name)
    assert whole
    last = Counter()
    for at in range(0, len(CUTS[name]), 2):
        kept = kept_of_cut(tmp_path, CUTS[name], at, name)
        assert kept is None or kept <= whole, at
        last = last if kept is None else kept
    assert sum(last.values()) >= 0.5 * sum(whole.values())


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.permutations(["step", "step_time_ms", "loss", "samples_per_second", "lr"]),
    st.lists(st.lists(st.floats(-1e9, 1e9), min_size=4, max_size=4), min_size=1, max_size=6),
    st.sampled_from([",", ";", "\t"]),
)
def test_what_is_written_is_read(tmp_path, order, rows, delimiter):
    """Columns in any order."""
    names = ["step_time_ms", "loss", "samples_per_second", "lr"]
    text = delimiter.join(order) + "\n"
    for step, row in enumerate(rows):
        cells = {"step": str(step)} | {name: repr(value) for name, value in zip(names, row, strict=True)}
        text += delimiter.join(cells[name] for name in order) + "\n"
    sink = read_text(tmp_path, text, "t.csv")
    for name, place in (("loss", 1), ("samples_per_second", 2), ("lr", 3)):
        assert of(sink, name) == [(step, row[place]) for step, row in enumerate(rows)]
    assert of(sink, "step_time") == [(step, row[0] / 1000) for step, row in enumerate(rows)]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=120), st.sampled_from(sorted(CUTS)), st.integers(0, 10**6))
def test_damage_gives_an_answer_or_one_line(tmp_path, garbage, name, at):
    at %= len(CUTS[name])
    kept_of_cut(tmp_path, CUTS[name][:at] + garbage + CUTS[name][at + len(garbage) // 2 :], 10**6, name)


@real
def test_real_logs_hold_their_facts():
    deepspeed = read(REAL / "megatron_deepspeed_a100.log", "training_log")
    last = {m: v for m, t, v in samples(deepspeed, "metric", "tick", "value") if t == 5}
    assert (last["step_time"], last["samples_per_second"], last["tflops"]) == (pytest.approx(74.4949), 27.492, 150.62)
    assert deepspeed.facts.world_size == 16
    old = read(REAL / "megatron_2021_n16.out", "training_log")
    assert of(old, "step_time") == [(1, 155.4838), (2, 129.0288), (3, 128.8915)]
    assert old.facts.world_size == 64 and not of(old, "tflops")
    nanogpt = read(REAL / "nanogpt_8xh100.txt", "training_log")
    assert of(nanogpt, "step_avg")[-2:] == [(1393, 129.71), (1393, 129.81)]
    assert of(nanogpt, "val_loss")[-1] == (1393, 3.2785)
    assert nanogpt.facts.metadata["environment"]["pytorch_version"] == "2.7.0.dev20250110+cu126"


def test_long_blanks_in_a_cell_are_nothing_to_search(tmp_path):
    """Patterns with several ways to match would try them all for hours."""
    text = "iteration 1/ 10 | elapsed time per iteration (ms): 5 |\niteration 2/ 10 | a" + " " * 200_000 + "x|\n"
    sink = read_text(tmp_path, text)
    assert of(sink, "step_time") == [(1, pytest.approx(0.005))]
