"""Real pages and reports of ncu: against their manifest, against known facts, and against one another."""

import functools
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.memory_sink import MemorySink
from traceanalyzer.errors import SourceError
from traceanalyzer.ingestion import find_files
from traceanalyzer.passes.limits.sol import sol_class, stated_class
from traceanalyzer.sources.files import TraceFile

_DATA = Path(__file__).parents[2].parent / "shared"
_PUBLIC, _TRACES = _DATA / "public" / "ncu", _DATA / "traces" / "ncu"
_MANIFEST: list[dict[str, Any]] = (
    json.loads((_PUBLIC / "MANIFEST.json").read_text())["files"] if (_PUBLIC / "MANIFEST.json").exists() else []
)
_REFUSED = ("text_", "wide_nameless")
_REPORTS = ("rep_",)
_PAGES = [f for f in _MANIFEST if not f["file"].startswith(_REFUSED + _REPORTS)]
_WORDS = {
    "high throughput (>80 %)": "high_throughput",
    "latency: low compute and memory": "latency_issue",
    "latency: small grid": "small_grid",
    "memory-bound": "high_memory",
    "compute-bound": "high_compute",
}
_OWN = sorted(p for p in _TRACES.glob("*/*") if ".csv" in p.name)

pytestmark = pytest.mark.skipif(not _MANIFEST, reason="the real pages are not beside the repository")


@functools.cache
def read(path: Path) -> MemorySink:
    """What the reader writes of a page; several tests look at the same ones."""
    (found,) = find_files([path])
    assert found.source.name == "ncu"
    sink = MemorySink()
    found.source.read(TraceFile(path), sink)
    return sink


def profiles(path: Path) -> dict[int, dict[str, Any]]:
    return {row["id"]: row for row in read(path).rows("kernel_profiles")}


def metric(path: Path, name: str, id_: int, unit: str | None = None) -> Any:
    rows = read(path).rows("kernel_metrics")
    return next(r["value"] for r in rows if r["metric"] == name and r["id"] == id_ and unit in (None, r["metric_unit"]))


def judged(row: dict[str, Any]) -> str | None:
    stated = stated_class(row["nvidia_verdict"])
    return stated or sol_class(row["compute_pct"], row["memory_pct"], row["waves_per_multiprocessor"])


@pytest.mark.parametrize("facts", _PAGES, ids=lambda facts: facts["file"])
def test_pages_against_their_manifest(facts: dict[str, Any]) -> None:
    sink = read(_PUBLIC / facts["file"])
    found = sink.rows("kernel_profiles")
    assert len(found) == facts.get("kernel_launches", 0)
    for row in found:
        if expected := facts.get("sol_verdict_by_id", {}).get(str(row["id"])):
            assert judged(row) == _WORDS[expected]
    if facts.get("layout") == "wide":
        header = (_PUBLIC / facts["file"]).read_text().partition("\n")[0].split('","')
        leading = header.index("CC" if "CC" in header else "Stream") + 1
        assert len(sink.rows("kernel_metrics")) == facts["kernel_launches"] * (facts["header_columns"] - leading)
    if facts.get("layout") == "long":
        assert len(sink.rows("kernel_metrics")) + len(sink.rows("kernel_rules")) == facts["data_rows"]
    if facts.get("layout") == "long-summary":
        assert len(sink.rows("kernel_summaries")) == facts["data_rows"]
    assert sink.facts.whole


@pytest.mark.parametrize("name", [f["file"] for f in _MANIFEST if f["file"].startswith(_REFUSED)])
def test_what_is_no_page_of_csv_is_refused(name: str) -> None:
    with pytest.raises(SourceError, match="ncu --import REPORT --csv --page raw"):
        find_files([_PUBLIC / name])


@pytest.mark.parametrize("path", _OWN, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_captures_of_our_own(path: Path) -> None:
    sink = read(path)
    launches = {"kernels": 12, "training_steps": 68, "triton_two": 2}[path.parent.name]
    if "per-" in path.name or path.name.startswith("session"):
        launches = 0
    elif path.name.startswith(("mixed", "metrics")):
        launches = 6
    found = sink.rows("kernel_profiles")
    assert len(found) == launches and {code for code, _ in sink.notes} <= {"no_launches"}
    assert all(row["duration_ns"] > 0 for row in found)


def test_every_locale_of_one_report_reads_the_same() -> None:
    german, french, plain = (
        profiles(_PUBLIC / f"details_{name}.csv")
        for name in ("base_rtx3070_de_DE", "auto_rtx3070_fr_FR", "auto_rtx3070_nvtx")
    )
    assert french == plain
    columns = ("compute_pct", "memory_pct", "dram_pct", "occupancy_pct", "kernel", "grid_x", "nvtx_ranges")
    for id_, row in german.items():
        assert {c: row[c] for c in columns} == {c: plain[id_][c] for c in columns}
    english = profiles(_PUBLIC / "raw_auto_rtx3070_en_US.csv")
    base = profiles(_PUBLIC / "raw_base_rtx3070.csv")
    assert (
        [r["duration_ns"] for r in english.values()]
        == [r["duration_ns"] for r in base.values()]
        == [84480, 249216, 88512]
    )


def test_facts_of_the_pages() -> None:
    german = _PUBLIC / "details_base_rtx3070_de_DE.csv"
    assert profiles(german)[1]["duration_ns"] == 249216
    assert metric(german, "Driver Shared Memory Per Block", 1) == 1024
    assert metric(_PUBLIC / "details_auto_rtx3070_fr_FR.csv", "Elapsed Cycles", 1) == 379490
    copy = _PUBLIC / "details_t4_numba_copy_thousands.csv"
    assert profiles(copy)[0]["duration_ns"] == 21058944 and profiles(copy)[0]["memory_pct"] == 61.84
    assert profiles(copy)[0]["dram_bytes_per_s"] == 196456177859.63
    assert profiles(_PUBLIC / "details_auto_a100_mistic.csv")[0]["duration_ns"] == 51_950_000_000
    assert profiles(_PUBLIC / "details_auto_rtx2060s_10launches.csv")[9]["duration_ns"] == 6_920_000_000
    cutlass = profiles(_PUBLIC / "raw_auto_a100_cutlass_name.csv")
    assert max(len(row["kernel"]) for row in cutlass.values()) == 4742
    assert [cutlass[0][c] for c in ("tensor_pct", "waves_per_multiprocessor", "occupancy_pct")] == [
        11.390434,
        0.08,
        5.888333,
    ]
    assert profiles(_PUBLIC / "metrics_nvtx_torch_program_output.txt")[13]["duration_ns"] == 3936
    assert metric(_PUBLIC / "metrics_nvtx_paddle_tensor_dump.csv", "launch__shared_mem_per_block_dynamic", 0) == 81920
    assert metric(_PUBLIC / "raw_metrics_rtx4090_offset_ca.csv", "dram__bytes_read.sum", 2) == 134220928
    (device,) = read(_PUBLIC / "raw_auto_gh200_triton.csv").rows("devices")
    assert (device["name"], device["multiprocessors"]) == ("NVIDIA GH200 480GB", 132)
    missing = [r for r in read(_PUBLIC / "details_base_gh200_silu.csv").rows("kernel_metrics") if r["value"] is None]
    assert sum(r["text"] is None for r in missing) == 2
    summary = read(_PUBLIC / "summary_per_kernel_rtx2060s.csv").rows("kernel_summaries")
    assert [(r["invocations"], r["average"]) for r in summary if r["metric"] == "Duration"] == [(10, 6.92e9)]


@pytest.mark.skipif(not (_TRACES / "kernels").exists(), reason="our own captures are not beside the repository")
@pytest.mark.parametrize("name", ["raw.base.csv.gz", "raw.fp.csv.gz", "details.csv.gz", "details.all.csv.gz"])
def test_pages_of_one_report_agree(name: str) -> None:
    raw, other = profiles(_TRACES / "kernels" / "raw.csv.gz"), profiles(_TRACES / "kernels" / name)
    assert raw.keys() == other.keys()
    for id_, row in raw.items():
        for column in ("compute_pct", "memory_pct", "dram_pct", "occupancy_pct", "waves_per_multiprocessor"):
            assert other[id_][column] == pytest.approx(row[column], abs=0.0051), (id_, column)
        assert other[id_]["duration_ns"] == pytest.approx(row["duration_ns"], rel=0.005)
        assert (other[id_]["kernel"], other[id_]["grid_x"]) == (row["kernel"], row["grid_x"])
        if other[id_]["nvidia_verdict"]:
            assert judged(row) == judged(other[id_]), (id_, row)


@pytest.mark.skipif(not (_TRACES / "kernels").exists(), reason="our own captures are not beside the repository")
def test_operations_and_tensor_pipe_of_our_own_captures() -> None:
    auto, base, details = (profiles(_TRACES / "kernels" / f"{n}.csv.gz") for n in ("raw", "raw.base", "details.all"))
    # A product of two matrices, which multiplies each result by a factor.
    assert auto[1]["flop"] == 2 * 2**33 + 2**22 and base[1]["flop"] == pytest.approx(auto[1]["flop"], rel=1e-6)
    # 1000 fused ones in each of 512 threads.
    assert auto[9]["flop"] == 2 * 512_000 and base[9]["flop"] == pytest.approx(2 * 512_000, rel=1e-3)
    assert [row["tensor_pct"] for row in details.values()] == [
        pytest.approx(row["tensor_pct"], abs=0.0051) for row in auto.values()
    ]


@pytest.mark.parametrize("facts", [f for f in _MANIFEST if f["file"].startswith(_REPORTS)], ids=lambda f: f["file"])
def test_reports(facts: dict[str, Any]) -> None:
    pytest.importorskip("ncu_report", reason="the extra ncu-rep is not installed", exc_type=ImportError)
    assert len(profiles(_PUBLIC / facts["file"])) == facts["kernel_launches"]


def test_a_report_reads_like_its_pages() -> None:
    pytest.importorskip("ncu_report", reason="the extra ncu-rep is not installed", exc_type=ImportError)
    report = profiles(_PUBLIC / "rep_rtx3070_nvtx.ncu-rep")
    page, details = profiles(_PUBLIC / "raw_base_rtx3070.csv"), profiles(_PUBLIC / "details_auto_rtx3070_nvtx.csv")
    for id_, row in report.items():
        same = ("kernel", "duration_ns", "grid_x", "block_x", "stream", "device", "nvtx_ranges", "compute_capability")
        assert {c: row[c] for c in same} == {c: page[id_][c] for c in same}
        assert row["memory_pct"] == pytest.approx(page[id_]["memory_pct"], abs=0.0051)
        assert judged(row) == judged(details[id_]) == "high_throughput"
        assert row["nvidia_verdict_type"] == details[id_]["nvidia_verdict_type"]


def test_a_report_without_the_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from traceanalyzer.sources.ncu_csv import recognise

    monkeypatch.setattr(recognise, "can_read_reports", lambda: False)
    with pytest.raises(SourceError, match=r"pip install 'gpu-traceanalyzer\[ncu-rep\]'") as error:
        find_files([_PUBLIC / "rep_rtx3070_vecadd.ncu-rep"])
    assert "\n" not in str(error.value)
