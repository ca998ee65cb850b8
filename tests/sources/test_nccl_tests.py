"""nccl-tests: tables of every version, under launchers and among other lines, and JSON."""

import json
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.reading import kept_of_cut, read, read_text, samples
from tests.support.real_traces import MISSING, PUBLIC, TRACES
from traceanalyzer.errors import SourceError
from traceanalyzer.ingestion import recognise
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.nccl_tests.instance import KEYS, instance_of, parts_of

REAL = PUBLIC / "telemetry" / "nccl"
real = pytest.mark.skipif(not REAL.is_dir(), reason=MISSING)

HEAD = """# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 2 minBytes 8 maxBytes 64 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0
# Using devices
#  Rank  0 Group  0 Pid  71 on      node1 device  0 [0000:1b:00] NVIDIA H200
#  Rank  1 Group  0 Pid  71 on      node1 device  1 [0000:1c:00] NVIDIA H200
#
#                                                              out-of-place                       in-place
"""
COLUMNS = "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n"
OLD_COLUMNS = COLUMNS.replace("  root", "").replace("#wrong", "error")
ROW = "  1048576  262144  float  sum  -1  41.94  25.00  37.50  0  52.43  20.00  30.00  3\n"
TAIL = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 33.75\n"
WHOLE = HEAD + COLUMNS + "#  (B)  (elements)  (us)  (GB/s)  (GB/s)  (us)  (GB/s)  (GB/s)\n" + ROW + TAIL
OUT = [("time", "us", 41.94), ("algbw", "GB/s", 25.0), ("busbw", "GB/s", 37.5), ("wrong", None, 0.0)]
IN = [("time", "us", 52.43), ("algbw", "GB/s", 20.0), ("busbw", "GB/s", 30.0), ("wrong", None, 3.0)]


def told(sink):
    """(metric, unit, value) of the rows, out of place and in place."""
    rows = samples(sink, "instance", "metric", "metric_unit", "value")
    return [
        [row[1:] for row in rows if parts_of(row[0]).get("place") == place] for place in ("out-of-place", "in-place")
    ]


def test_an_output(tmp_path):
    sink = read_text(tmp_path, WHOLE, source="nccl_tests")
    assert told(sink) == [OUT, IN]
    instances = {i for i, m in samples(sink, "instance", "metric") if m == "busbw"}
    same = "collective=all_reduce bytes=1048576 dtype=float redop=sum ranks=2 place="
    assert instances == {f"{same}out-of-place", f"{same}in-place"}
    assert samples(sink, "metric", "instance", "value", "tick")[-2:] == [
        ("out_of_bounds_values", "collective=all_reduce ranks=2", 0.0, 1),
        ("average_busbw", "collective=all_reduce ranks=2", 33.75, 1),
    ]
    facts = sink.facts
    assert (facts.host, facts.tool_version, facts.world_size) == ("node1", "2.17.6", None)
    assert facts.metadata == {"environment": {"nccl_version": "2.28.9"}}
    assert [(d["device"], d["name"]) for d in sink.rows("devices")] == [(0, "NVIDIA H200"), (1, "NVIDIA H200")]
    assert not sink.notes


@pytest.mark.parametrize(
    ("columns", "row", "redop", "root"),
    [
        (OLD_COLUMNS, ROW.replace("  -1", "").replace("  3\n", "  N/A\n"), "sum", None),
        (COLUMNS, ROW.replace("sum", "none").replace("-1", "1"), None, "1"),
        (COLUMNS, ROW.replace("  sum", ""), None, None),
        (COLUMNS.replace("  root", ""), ROW.replace("  sum  -1", ""), None, None),
        (COLUMNS.replace("\n", "  #iters\n"), ROW.replace("\n", "  20\n"), "sum", None),
        (COLUMNS.replace("\n", "  timestamp\n"), ROW.replace("\n", "  2026-01-01 10:00:05\n"), "sum", None),
    ],
)  # fmt: skip
def test_columns_are_found_by_the_header(tmp_path, columns, row, redop, root):
    sink = read_text(tmp_path, HEAD + columns + row)
    assert [[r for r in rows if r[0] in ("time", "algbw", "busbw")] for rows in told(sink)] == [OUT[:3], IN[:3]]
    parts = [parts_of(i) for i, m in samples(sink, "instance", "metric") if m == "busbw"]
    assert {(p.get("redop"), p.get("root")) for p in parts} == {(redop, root)}
    if "error" in columns:
        assert [(m, v) for m, v in samples(sink, "metric", "value") if m == "error"] == [
            ("error", 0.0),
            ("error", None),
        ]
    if "timestamp" in columns:
        assert {t for (t,) in samples(sink, "t_ns")} == {1767261605 * 10**9}
    if "#iters" in columns:
        assert ("iterations", 20.0) in samples(sink, "metric", "value")
    assert not sink.notes


def test_times_of_iterations(tmp_path):
    columns = COLUMNS.replace("#wrong", "#wrong i_min i_max i_p99 i_cv%")
    row = ROW.replace("  0  ", "  0  40.1 45.2 44.0 1.5  ").replace("  3\n", "  3  50 60 59 2.5\n")
    out, inside = told(read_text(tmp_path, HEAD + columns + row))
    names = [("time_min", "us"), ("time_max", "us"), ("time_p99", "us"), ("time_variation", "%")]
    assert out == [*OUT, *((*name, value) for name, value in zip(names, (40.1, 45.2, 44.0, 1.5), strict=True))]
    assert inside[4:] == [(*name, value) for name, value in zip(names, (50.0, 60.0, 59.0, 2.5), strict=True)]


@pytest.mark.parametrize("tag", ["[1,0]<stdout>:", "0: ", "   [1,0]<stdout>: ", "node-07.local: ", "\t", "> "])
def test_launchers_tag_lines(tmp_path, tag):
    sink = read_text(tmp_path, "".join(f"{tag}{line}\n" for line in WHOLE.splitlines()))
    assert told(sink) == [OUT, IN]


def test_tags_between_columns_and_rows_without_a_header(tmp_path):
    row = "[0]   1048576  262144   float   sum   -1[0]   41.94   25.00  37.50   0[0]  52.43  20.00  30.00   3\n"
    sink = read_text(tmp_path, row, source="nccl_tests")
    assert told(sink) == [OUT, IN]
    assert [code for code, _ in sink.notes] == ["rows_without_header"]
    shifted = row.replace("41.94   25.00  37.50", "41.94   37.50  25.00")  # then these are other columns
    with pytest.raises(SourceError, match="without a whole row"):
        read_text(tmp_path, shifted)


@pytest.mark.parametrize(
    "torn", [ROW[:40], ROW.replace("  52.43", "", 1), ROW.replace("25.00", "25.0O"), "9" * 30 + ROW]
)
def test_torn_rows_are_left_out_and_said(tmp_path, torn):
    sink = read_text(tmp_path, HEAD + COLUMNS + ROW + torn.rstrip() + "\n" + TAIL)
    assert told(sink) == [OUT, IN]
    if torn[0] == " ":
        assert [code for code, _ in sink.notes] == ["torn_lines"]


def test_several_outputs_and_log_lines_of_nccl(tmp_path):
    info = (
        "node1:71:71 [0] NCCL INFO NCCL version 2.18.5+cuda12.2\n"
        "node1:71:80 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\n"
        "node1:71:80 [0] NCCL INFO NCCL_NET_PLUGIN set by environment to /opt/secret/lib.so.\n"
        "node1:71:80 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to 10.1.2.3.\n"
        "node1:71:80 [0] NCCL INFO Using network Socket\n"
    )
    first = (HEAD + COLUMNS + info + ROW).replace(HEAD.splitlines()[0] + "\n", "")
    second = first.replace("all_reduce_perf", "alltoall_perf").replace("Rank  1", "Rank  3")
    sink = read_text(tmp_path, f"$ kubectl logs\n{first}{TAIL}text 5 6 float between\n{second}")
    parts = [parts_of(i) for i, m in samples(sink, "instance", "metric") if m == "time"]
    assert [(p["collective"], p["ranks"], p.get("output")) for p in parts] == [
        *[("all_reduce", "2", None)] * 2,
        *[("all_to_all", "4", "2")] * 2,
    ]
    expected = {"NCCL_IB_DISABLE": "1", "nccl_version": "2.18.5+cuda12.2", "network": "Socket"}
    assert sink.facts.metadata["environment"] == expected


@pytest.mark.parametrize(
    ("name", "line", "kind"),
    [
        ("a100_allreduce.log", "", "all_reduce"),
        ("reduce-scatter.txt", "", "reduce_scatter"),
        ("reduce_and_gather.txt", "", None),
        ("out.log", "", None),
        ("out.log", "$ mpirun -np 8 ./build/sendrecv_perf -b 8", "send_recv"),
        ("out.log", "run all_gather_perf or reduce_perf", None),
        ("allreduce.log", "# all_gather", "all_gather"),
    ],
)
def test_the_collective_is_told_by_program_title_or_file_name(tmp_path, name, line, kind):
    sink = read_text(tmp_path, f"{line}\n{COLUMNS}{ROW}", name)
    assert {parts_of(i).get("collective") for (i,) in samples(sink, "instance")} == {kind}
    assert bool(sink.notes) == (kind is not None and not line)


def test_instances_come_back(tmp_path):
    parts = {key: str(number) for number, key in enumerate(KEYS)}
    assert parts_of(instance_of(parts)) == parts
    assert instance_of({}) is None and parts_of(None) == {} and parts_of("series 2") == {}


def document(**more):
    body = {"time": 41.94, "alg_bw": 25.0, "bus_bw": 37.5, "nwrong": 0.0}
    result = {"size": 1048576, "count": 262144, "type": "float", "redop": "sum", "root": "    -1", "out_of_place": body}
    result |= {"in_place": {"time": 52.43, "alg_bw": 20.0, "bus_bw": 30.0, "nwrong": 3}, "experiment_name": "AllReduce"}
    devices = [{"rank": n, "device": n, "hostname": "node1", "device_info": "NVIDIA H200"} for n in (0, 1)]
    return {
        "version": 2,
        "start_time": "2026-01-01 10:00:00",
        "args": ["./build/all_reduce_perf", "-b", "8"],
        "env": ["NCCL_DEBUG=INFO", "USER=me", "NCCL_AUTH_TOKEN=x", "NCCL_TOPO_FILE=/home/me/t.xml"],
        "nccl_version": 22809,
        "config": {"nthreads": 1, "devices": devices},
        "results": [result, result | {"size": 2097152, "in_place": None}],
        "average_bus_bandwidth": {"bandwidth": 33.75, "okay": "unchecked"},
        **more,
    }


def test_json(tmp_path):
    sink = read_text(tmp_path, json.dumps(document()), "o.json", source="nccl_tests")
    assert told(sink) == [OUT * 2, IN]
    assert samples(sink, "instance")[0] == (
        "collective=all_reduce bytes=1048576 dtype=float redop=sum ranks=2 place=out-of-place",
    )
    assert samples(sink, "metric", "value")[-1] == ("average_busbw", 33.75)
    assert sink.facts.metadata == {"environment": {"NCCL_DEBUG": "INFO", "nccl_version": "2.28.9"}}
    assert sink.facts.host == "node1" and len(sink.rows("devices")) == 2


@pytest.mark.parametrize(
    "more", [{"results": [1, {}, {"size": "x"}]}, {"results": 5}, {"results": [{"size": 8, "in_place": [1]}], "env": 3}]
)
def test_odd_json_is_an_answer_or_one_line(tmp_path, more):
    kept_of_cut(tmp_path, json.dumps(document(**more)).encode(), 10**6, "o.json")


CUTS = {"o.txt": WHOLE.encode(), "o.json": json.dumps(document()).encode()}


@pytest.mark.parametrize("name", CUTS)
def test_cut_at_any_byte_no_number_is_wrong(tmp_path, name):
    def numbers(at):
        kept = kept_of_cut(tmp_path, CUTS[name], at, name)
        # Of JSON, what stands behind the results tells what the results are of.
        return None if kept is None else Counter((m, v) for _d, _i, _p, m, _u, _t, _n, v in kept.elements())

    whole = numbers(len(CUTS[name]))
    for at in range(0, len(CUTS[name]), 2):
        kept = numbers(at)
        assert kept is None or kept <= whole, at


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2**40),
            st.sampled_from(["float", "half", "bfloat16", "int8", "uint64", "f8e4m3"]),
            st.sampled_from(["sum", "none", "avg"]),
            st.integers(-1, 7),
            st.lists(st.floats(0, 1e6).map(lambda v: round(v, 2)), min_size=6, max_size=6),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_what_is_printed_is_read(tmp_path, rows):
    text = COLUMNS
    for size, dtype, redop, root, v in rows:
        text += f"{size:12} {size // 4:12} {dtype:>8} {redop:>6} {root:6}  {v[0]:7} {v[1]:6} {v[2]:6} 0"
        text += f"  {v[3]:7} {v[4]:6} {v[5]:6} N/A\n"
    sink = read_text(tmp_path, text)
    got = samples(sink, "metric", "value")
    assert got == [
        pair
        for *_, v in rows
        for pair in [
            *zip(("time", "algbw", "busbw", "wrong"), (*v[:3], 0.0), strict=True),
            *zip(("time", "algbw", "busbw", "wrong"), (*v[3:], None), strict=True),
        ]
    ]
    parts = [parts_of(i) for i, m in samples(sink, "instance", "metric") if m == "time"][::2]
    assert [(int(p["bytes"]), p["dtype"], p.get("redop", "")) for p in parts] == [
        (size, dtype, redop.replace("none", "")) for size, dtype, redop, _, _ in rows
    ]


def of_size(sink, size, metric, place="out-of-place"):
    return [
        v
        for i, m, v in samples(sink, "instance", "metric", "value")
        if m == metric and parts_of(i).get("bytes") == str(size) and parts_of(i).get("place") == place
    ]


@real
def test_real_outputs_hold_their_facts():
    old = read(REAL / "a100x8_allreduce_2021.log", "nccl_tests")
    assert len(samples(old)) == 34 * 8 + 2
    assert of_size(old, 8589934592, "busbw") == [235.26]
    assert [v for m, v in samples(old, "metric", "value") if m == "average_busbw"] == [68.4048]
    assert {parts_of(i)["ranks"] for (i,) in samples(old, "instance")} == {"8"}
    assert of_size(read(REAL / "a100x8_alltoall_2021.log"), 8589934592, "busbw") == [224.31]
    scattered = read(REAL / "a100x8_reducescatter_2021.log")
    (algbw,), (busbw,) = (of_size(scattered, 8589934592, metric) for metric in ("algbw", "busbw"))
    assert busbw / algbw == pytest.approx(0.875, abs=1e-4)
    racks = read(REAL / "gb200_readme.md")
    found = samples(racks, "instance", "metric", "value")
    averages = [(v, parts_of(i).get("ranks")) for i, m, v in found if m == "average_busbw"]
    assert averages == [(373.187, None), (745.53, "72"), (688.487, "144"), (297.808, "1440")]
    tagged = read(REAL / "p5_mpi_tagged_readme.md")
    assert of_size(tagged, 2147483648, "busbw") == [78.33, 443.72, 437.79]
    glued = read(REAL / "bracket_glued_rows.txt")
    assert (of_size(glued, 4194304, "time"), of_size(glued, 4194304, "busbw")) == ([622.6], [12.91])
    one = read(REAL / "one_rank_new_header.txt")
    assert (of_size(one, 33554432, "algbw"), of_size(one, 33554432, "busbw")) == ([1303.8], [0.0])


@pytest.mark.skipif(not (TRACES / "busbw2").is_dir(), reason=MISSING)
def test_our_own_table():
    sink = read(TRACES / "busbw2" / "torch_collectives.txt", "nccl_tests")
    parts = [parts_of(i) for i, m in samples(sink, "instance", "metric") if m == "busbw"]
    assert Counter(p["collective"] for p in parts) == {"all_reduce": 10, "all_gather": 10, "reduce_scatter": 10}
    assert {(p["ranks"], p["place"]) for p in parts} == {("2", "out-of-place")}
    assert sink.facts.metadata["environment"] == {"nccl_version": "2.28.9"}
    assert [v for m, v in samples(sink, "metric", "value") if m == "busbw"][-1] == 253.91


def test_other_texts_are_not_taken_for_it(tmp_path):
    (tmp_path / "t.txt").write_text("size count type\n5 5 float\n# size\n")
    assert recognise(TraceFile(tmp_path / "t.txt")) is None


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=120), st.sampled_from(sorted(CUTS)), st.integers(0, 10**6))
def test_damage_gives_an_answer_or_one_line(tmp_path, garbage, name, at):
    at %= len(CUTS[name])
    kept_of_cut(tmp_path, CUTS[name][:at] + garbage + CUTS[name][at + len(garbage) // 2 :], 10**6, name)
