"""Damage that was found by trying: odd values in traces, files that change, stores and caches that broke."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import traceanalyzer
from tests.support.nsys_builder import build, call, kernel
from tests.test_ingestion import trace
from traceanalyzer import ingestion
from traceanalyzer.errors import SourceError, StoreError, TraceAnalyzerError, UsageError
from traceanalyzer.ingestion import ingest
from traceanalyzer.passes.selection import parse_ranks, parse_steps, parse_window
from traceanalyzer.schema.frames import frame_of, step_number
from traceanalyzer.schema.text import storable
from traceanalyzer.store import thread_stacks
from traceanalyzer.traceset import TraceSet

COMMAND = [sys.executable, "-m", "traceanalyzer"]


@pytest.fixture
def store(tmp_path):
    return tmp_path / "s.duckdb"


def changed(path: Path, change) -> Path:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    return path


class TestValues:
    @pytest.mark.parametrize(
        "change",
        [
            lambda d: d.update(deviceProperties=7),
            lambda d: d.update(schemaVersion="\ud800"),
            lambda d: d["traceEvents"][0].update(name="ProfilerStep#" + "9" * 400, cat="user_annotation"),
            lambda d: d["traceEvents"][0].update(name=f"a.py({'9' * 5000}): f", cat="python_function"),
        ],
    )
    def test_facts_and_names_of_odd_kinds(self, tmp_path, store, change):
        ingest([changed(trace(tmp_path / "t.json"), change)], store)
        with traceanalyzer.open(store) as traces:
            assert list(traces.gaps().devices.rows())
            traces.steps()

    def test_deep_nesting_beside_a_value_of_an_odd_type(self, tmp_path, store):
        path = trace(tmp_path / "t.json")
        text = path.read_text().replace(
            '"traceEvents": [', '"traceEvents": [{"ph": 1.5, "a": ' + "[" * 3000 + "]" * 3000 + "},"
        )
        path.write_text(text)
        assert ingest([path], store).warnings

    def test_numbers_that_are_too_long_are_none(self):
        assert step_number("step 12") == 12
        assert step_number("step " + "1" * 19) is None
        assert frame_of(3, "a.py(1234567890): f").line is None

    def test_times_at_the_edges_of_64_bits_are_left_out_and_said(self, tmp_path, store):
        edge = 2**63
        kernels = [kernel(1000, 2000), kernel(-edge, 4000, correlation=2), kernel(5000, edge - 1, correlation=3)]
        calls = [call(100, 200, 1), call(-edge + 5, edge - 1, 1, correlation=2)]
        tables = {"CUPTI_ACTIVITY_KIND_KERNEL": kernels, "CUPTI_ACTIVITY_KIND_RUNTIME": calls}
        answer = ingest([build(tmp_path / "t.sqlite", tables, {1: "cudaLaunchKernel", 2: "k"})], store)
        assert any("146 years" in w for w in answer.warnings)
        with traceanalyzer.open(store) as traces:
            (row,) = traces.gaps().devices.rows()
            assert (row["start_ns"], row["end_ns"], row["span_ns"], row["busy_ns"]) == (1000, 2000, 1000, 1000)
            assert sum(r["ns"] for r in traces.ledger().ledger.rows()) == 1000

    @pytest.mark.parametrize("value", [1e300, -1e300, "9" * 30, float("inf"), "text", b"\x00\xff"])
    def test_integers_of_an_export_that_do_not_fit_are_nulls(self, tmp_path, store, value):
        kernels = [kernel(1000, 2000), kernel(3000, 4000, correlation=2, gridX=value)]
        ingest([build(tmp_path / "t.sqlite", {"CUPTI_ACTIVITY_KIND_KERNEL": kernels}, {1: "k", 2: "k"})], store)
        with traceanalyzer.open(store) as traces:
            assert [r["busy_ns"] for r in traces.gaps().devices.rows()] == [2000]

    def test_an_error_is_one_line(self):
        assert "\n" not in str(SourceError("a\nb", "why\r\nnot"))
        assert str(TraceAnalyzerError("a  b\n  c")) == "a  b c"


def crossing(path: Path, count: int, length: int) -> Path:
    """Events of a thread that begin a microsecond apart and last `length` microseconds, before a late launch."""

    def change(document):
        place = {"ph": "X", "cat": "cpu_op", "pid": 100, "tid": 100, "dur": length}
        document["traceEvents"] += [{**place, "name": f"op{k % 7}", "ts": 1012 + k} for k in range(count)]
        for event in document["traceEvents"][2:6]:
            event["ts"] += 2 * count

    return changed(trace(path), change)


class TestCrossings:
    def test_a_staircase_takes_time_by_its_length_only(self, tmp_path, store):
        path = crossing(tmp_path / "t.json", 8000, 2)
        begun = time.process_time()
        ingest([path], store)
        assert time.process_time() - begun < 10  # it was minutes when every event looked at all before it
        with traceanalyzer.open(store) as traces:
            gaps = traces.gaps()
            assert sum(r["idle_ns"] for r in gaps.stacks.rows()) == sum(r["idle_ns"] for r in gaps.devices.rows())

    def test_stacks_that_would_change_without_end_are_given_up_and_said(self, tmp_path, store, monkeypatch):
        monkeypatch.setattr(thread_stacks, "_MOST_STEPS", 1000)
        monkeypatch.setattr(thread_stacks, "_STEPS_AN_EVENT", 0)
        answer = ingest([crossing(tmp_path / "t.json", 300, 1000)], store)
        assert any("cross so often" in w for w in answer.warnings)
        with traceanalyzer.open(store) as traces:
            gaps = traces.gaps()
            assert sum(r["idle_ns"] for r in gaps.stacks.rows()) == sum(r["idle_ns"] for r in gaps.devices.rows())

    def test_very_deep_stacks_are_those_of_shallow_ones(self, tmp_path, monkeypatch):
        def frames(name):
            ingest([crossing(tmp_path / "t.json", 60, 4)], tmp_path / name)
            with traceanalyzer.open(tmp_path / name) as traces:
                return [list(traces.gaps().stacks.rows()), list(traces.sql("FROM cpu_events", top=0).rows.rows())]

        before = frames("a.duckdb")
        monkeypatch.setattr(thread_stacks, "_STACKS_A_LEVEL", 1 << 40)
        assert frames("b.duckdb") == before


class TestFilesThatChange:
    @pytest.mark.parametrize("how", ["grows", "replaced", "vanishes"])
    def test_while_it_is_read(self, tmp_path, store, monkeypatch, how):
        path = trace(tmp_path / "t.json")
        other = trace(tmp_path / "o.txt", shift=1)
        real = ingestion.Staging

        def staging(*arguments):
            if how == "grows":
                path.write_text(path.read_text() + " ")
            elif how == "replaced":
                other.replace(path)
            else:
                path.unlink()
            return real(*arguments)

        monkeypatch.setattr(ingestion, "Staging", staging)
        with pytest.raises(SourceError, match=r"t\.json: (changed while it was read|no such file|vanished)"):
            ingest([path], store)
        assert not store.exists()

    def test_one_of_a_folder_that_vanishes_is_left_out(self, tmp_path, store, monkeypatch):
        folder = tmp_path / "job"
        folder.mkdir()
        trace(folder / "rank0.json"), trace(folder / "rank1.json", shift=1)
        real = ingestion.Content

        def content(path):
            (folder / "rank1.json").unlink(missing_ok=True)
            return real(path)

        monkeypatch.setattr(ingestion, "Content", content)
        answer = ingest([folder], store)
        assert len(list(answer.files.rows())) == 1
        assert any("left out" in w and "rank1.json" in w for w in answer.warnings)


class TestNames:
    def test_bytes_that_are_no_text(self, tmp_path, store):
        assert storable("\udcff\ud800x") == r"\xed\xb3\xbf\xed\xa0\x80x"
        assert storable("\udcffx") == r"\xffx"
        path = trace(Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.json")))
        ingest([path], store, run="\udcfe")
        with traceanalyzer.open(store) as traces:
            (row,) = traces.info(run="\udcfe").captures.rows()
        assert (row["run"], Path(row["path"]).name) == (r"\xfe", r"\xff.json")
        with pytest.raises(StoreError, match="UTF-8"):
            ingest([path], Path(str(tmp_path / "\udcff.duckdb")))


@pytest.mark.usefixtures("stores_made_anew")
class TestStores:
    def test_a_damaged_block_is_one_line(self, tmp_path, store):
        ingest([trace(tmp_path / "t.json", n=50)], store)
        whole = store.read_bytes()
        for at in range(3 * 4096 + 100, len(whole), 1 << 18):
            damaged = bytearray(whole)
            damaged[at : at + 2000] = bytes(b ^ 255 for b in damaged[at : at + 2000])
            store.write_bytes(damaged)
            try:
                with traceanalyzer.open(store) as traces:
                    traces.gaps()
            except StoreError as error:
                assert len(str(error).splitlines()) == 1

    @pytest.mark.parametrize("damage", ["cut", "empty", "noise"])
    def test_a_damaged_cached_store_is_made_anew(self, tmp_path, monkeypatch, damage):
        monkeypatch.setenv("TRACEANALYZER_CACHE", str(tmp_path / "cache"))
        path = trace(tmp_path / "t.json")
        with TraceSet.of_files([path]) as traces:
            before = list(traces.gaps().causes.rows())
            store = traces.path
        whole = store.read_bytes()
        noise = bytes(b ^ 255 for b in whole[20_000:])
        store.write_bytes({"cut": whole[: len(whole) // 2], "empty": b"", "noise": whole[:20_000] + noise}[damage])
        with TraceSet.of_files([path]) as traces:
            assert list(traces.gaps().causes.rows()) == before
        assert [p.name for p in store.parent.iterdir()] == [store.name]

    @pytest.mark.skipif(os.name != "posix", reason="limits are POSIX")
    def test_a_full_disk_leaves_no_half_made_store(self, tmp_path, store):
        path = trace(tmp_path / "t.json")
        code = (
            "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000));"
            " from traceanalyzer.cli.main import main; main()"
        )
        command = [sys.executable, "-c", code, "ingest", str(path), "--db", str(store)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
        assert [p.name for p in tmp_path.iterdir()] == ["t.json"]

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_interrupted_it_leaves_nothing_beside_the_store(self, tmp_path, store, number):
        path = trace(tmp_path / "t.json", n=30_000)
        process = subprocess.Popen([*COMMAND, "ingest", "-q", "--db", str(store), str(path)], stderr=subprocess.PIPE)
        while process.poll() is None and not any(p.name not in ("t.json",) for p in tmp_path.iterdir()):
            time.sleep(0.01)
        process.send_signal(number)
        error = process.communicate()[1].decode()
        assert process.returncode in (0, 130), error
        if process.returncode == 130:
            assert error.strip() == "interrupted"
        assert {p.name for p in tmp_path.iterdir()} <= {"t.json", "s.duckdb"}


class TestSelections:
    @pytest.mark.parametrize("text", ["0-999999999", "0-" + "9" * 25, "9" * 5000, "²", "", "0,,1"])
    def test_ranks(self, text):
        with pytest.raises(UsageError, match="--rank"):
            parse_ranks(text)

    @pytest.mark.parametrize("text", ["5-", "-5", "9" * 30, "²", "٥"])
    def test_steps(self, text):
        with pytest.raises(UsageError, match="--steps"):
            parse_steps(text)

    @pytest.mark.parametrize("text", ["nan:inf", "nan:", "1e400:", "1e400:1e401", "-1:2", "5", "1:1", "1e30:1e31"])
    def test_windows(self, text):
        with pytest.raises(UsageError, match="--window"):
            parse_window(text)

    def test_windows_that_end_late_are_whole(self):
        assert parse_window("0:1e999999999") == parse_window("0:inf") == (0, 2**32 * 10**9)

    @pytest.mark.parametrize("selection", [{"device": "9" * 30}, {"device": "²"}, {"warmup": "9" * 30}])
    def test_numbers(self, tmp_path, store, selection):
        ingest([trace(tmp_path / "t.json")], store)
        with traceanalyzer.open(store) as traces, pytest.raises(UsageError, match="give a number"):
            traces.gaps(**selection)
