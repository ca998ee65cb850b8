"""Runs, captures and ranks; files, folders and globs; all or nothing of each file."""

import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest

import traceanalyzer
from tests.support.ncu_report_writer import report
from tests.support.ncu_writer import metric, page
from traceanalyzer.cli.render.table import as_terminal
from traceanalyzer.errors import SourceError, StoreError, UnknownFormatError
from traceanalyzer.ingestion import find_files, ingest
from traceanalyzer.sources.ncu_csv import recognise
from traceanalyzer.store.catalog import rank_in_name


def trace(path: Path, rank: int | None = None, world: int = 4, shift: int = 0, pid: int = 100, n: int = 3) -> Path:
    """A small torch trace: n kernels of 5 us, launched 10 us before, every 20 us."""
    events = []
    for k in range(n):
        t = 1000 + 20 * k + shift
        call = {"correlation": k + 1}
        op = {"device": 0, "stream": 7, "correlation": k + 1}
        events += [
            {
                "ph": "X",
                "cat": "cuda_runtime",
                "name": "cudaLaunchKernel",
                "pid": pid,
                "tid": pid,
                "ts": t,
                "dur": 2,
                "args": call,
            },
            {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": t + 10, "dur": 5, "args": op},
        ]
    document = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "GPU"}], "traceEvents": events}
    if rank is not None:
        document["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": world}
    text = json.dumps(document)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def captures(store, **selection):
    with traceanalyzer.open(store) as traces:
        return {Path(r["path"]).name: r for r in traces.info(**selection).captures.rows()}


@pytest.fixture
def store(tmp_path):
    return tmp_path / "s.duckdb"


class TestRuns:
    def test_one_file_is_a_run_of_its_name(self, tmp_path, store):
        ingest([trace(tmp_path / "job.pt.trace.json.gz")], store)
        assert captures(store)["job.pt.trace.json.gz"]["run"] == "job"

    def test_files_of_one_call_are_one_run_named_after_their_folder(self, tmp_path, store):
        folder = tmp_path / "try1"
        folder.mkdir()
        ingest([trace(folder / "rank0.json"), trace(folder / "rank1.json", shift=1)], store)
        assert {r["run"] for r in captures(store).values()} == {"try1"}

    def test_questions_speak_of_the_newest_run(self, tmp_path, store):
        one, two = trace(tmp_path / "one.json"), trace(tmp_path / "two.json", shift=5)
        ingest([one], store)
        ingest([two], store)
        assert list(captures(store)) == ["two.json"]
        ingest([one], store)  # nothing to read, but it is what was asked for
        assert list(captures(store)) == ["one.json"]
        assert set(captures(store, run="all")) == {"one.json", "two.json"}
        assert list(captures(store, run="two")) == ["two.json"]
        with traceanalyzer.open(store) as traces, pytest.raises(traceanalyzer.UsageError, match="no run 'three'"):
            traces.gaps(run="three")

    def test_a_later_rank_of_the_same_world_and_folder_joins(self, tmp_path, store):
        ingest([trace(tmp_path / "a.json", rank=0)], store)
        ingest([trace(tmp_path / "b.json", rank=1, shift=3)], store)
        assert {r["run"] for r in captures(store, run="all").values()} == {"a"}
        ingest([trace(tmp_path / "c.json", rank=2, world=8, shift=4)], store)
        assert captures(store)["c.json"]["run"] == "c"
        (tmp_path / "other").mkdir()
        ingest([trace(tmp_path / "other" / "d.json", rank=3, shift=6)], store)
        assert captures(store)["d.json"]["run"] == "d"

    def test_a_taken_name_gets_a_number(self, tmp_path, store):
        (tmp_path / "x").mkdir()
        ingest([trace(tmp_path / "job.json")], store)
        ingest([trace(tmp_path / "x" / "job.json", shift=1)], store)
        assert captures(store)["job.json"]["run"] == "job-2"

    def test_run_names_and_extends(self, tmp_path, store):
        ingest([trace(tmp_path / "a.json", rank=0)], store, run="mine")
        ingest([trace(tmp_path / "b.json", rank=1, shift=1)], store, run="mine")
        assert {(n, r["run"]) for n, r in captures(store).items()} == {("a.json", "mine"), ("b.json", "mine")}


class TestRanks:
    @pytest.mark.parametrize(
        ("name", "rank"),
        [
            ("rank0.json", 0),
            ("trace_rank_3.json", 3),
            ("job.rank5.pt.trace.json", 5),
            ("x-rank-7.json", 7),
            ("nanogpt_8xh100_r4.json.gz", 4),
            ("run_2.pt.trace.json", 2),
            ("worker1.1623212756351.pt.trace.json", 1),
            ("node_12345.1623212756351.pt.trace.json", None),
            ("a100x8.json", None),
            ("bare.json", None),
            ("hta_128ranks_r1.json", 1),
        ],
    )
    def test_names(self, name, rank):
        assert rank_in_name(name) == rank

    def test_metadata_wins_over_the_name(self, tmp_path, store):
        ingest([trace(tmp_path / "weird_rank_6.json", rank=2)], store)
        row = captures(store)["weird_rank_6.json"]
        assert (row["rank"], row["rank_source"], row["world_size"]) == (2, "metadata", 4)

    def test_the_order_given_is_the_last_resort_and_is_said(self, tmp_path, store):
        answer = ingest([trace(tmp_path / "b.json"), trace(tmp_path / "a.json", shift=1)], store)
        assert {n: r["rank"] for n, r in captures(store).items()} == {"b.json": 0, "a.json": 1}
        assert any("counts as rank 1 by the order given" in w for w in answer.warnings)

    def test_a_second_recording_of_a_rank_is_refused_and_the_first_stays(self, tmp_path, store):
        files = [trace(tmp_path / "first.json", rank=1), trace(tmp_path / "second.json", rank=1, shift=1)]
        with pytest.raises(StoreError, match=r"second\.json: rank 1 of run .* in .*first\.json; .*--run NAME"):
            ingest(files, store)
        assert list(captures(store)) == ["first.json"]

    def test_windows_of_one_process_are_one_rank(self, tmp_path, store):
        ingest([trace(tmp_path / "a.json"), trace(tmp_path / "b.json", shift=5000)], store)
        assert {n: (r["rank"], r["rank_source"]) for n, r in captures(store).items()} == {
            "a.json": (0, "order"),
            "b.json": (0, "process"),
        }
        ingest([trace(tmp_path / "c.json", rank=3), trace(tmp_path / "d.json", rank=3, shift=5000)], store, run="w")
        assert len(captures(store)) == 2


def profile(path: Path, duration: int = 10) -> Path:
    """A page of ncu with one launch."""
    path.write_text(page(metric("Duration", "ns", str(duration))))
    return path


class TestProfilesOfKernels:
    """Files of ncu: no rank of their own, and no run."""

    def test_a_single_file_joins_the_newest_run_and_that_is_said(self, tmp_path, store):
        ingest([trace(tmp_path / "old.json")], store)
        ingest([trace(tmp_path / "job.json", shift=1)], store)
        answer = ingest([profile(tmp_path / "kernels.csv")], store)
        assert {n: (r["run"], r["rank"]) for n, r in captures(store).items()} == {
            "job.json": ("job", 0),
            "kernels.csv": ("job", None),
        }
        assert any("joins the newest run, job" in note for note in answer.notes)
        with traceanalyzer.open(store) as traces:
            assert len(traces.throughput().kernels) == 1 and len(traces.gaps().devices) == 1
            limits = [r["answerable"] for r in traces.info().answers.rows() if r["question"] == "kernel_limits"]
        assert limits == [False, True]

    def test_several_in_a_run_are_no_conflict(self, tmp_path, store):
        files = [profile(tmp_path / f"rank0_{k}.csv", 10 + k) for k in range(2)]
        ingest(files, store, run="mine")
        ingest([profile(tmp_path / "c.csv", 20)], store)
        found = captures(store)
        assert {r["run"] for r in found.values()} == {"mine"} and len(found) == 3
        assert found["c.csv"]["rank"] is None

    def test_only_a_stated_rank_counts_and_hides_no_timeline(self, tmp_path, store):
        ingest([trace(tmp_path / "a.json", rank=1)], store)
        ingest([profile(tmp_path / "kernels_rank1.csv")], store)
        found = captures(store)
        assert [(r["rank"], r["source"]) for r in found.values()] == [(1, "torch"), (1, "ncu")]
        with traceanalyzer.open(store) as traces:
            assert len(traces.gaps(rank=1).devices) == 1 and len(traces.throughput(rank=1).kernels) == 1

    def test_alone_in_a_store_it_is_a_run_of_its_name(self, tmp_path, store):
        ingest([profile(tmp_path / "kernels.csv")], store)
        assert captures(store)["kernels.csv"]["run"] == "kernels"
        ingest([trace(tmp_path / "job.json"), profile(tmp_path / "more.csv", 11)], store, run="both")
        assert {n: r["rank"] for n, r in captures(store).items()} == {"job.json": 0, "more.csv": None}
        ingest([profile(tmp_path / "own.csv", 12)], store, run="other")
        assert captures(store)["own.csv"]["run"] == "other"

    def test_the_launches_of_each_file_are_counted(self, tmp_path, store):
        answer = ingest([trace(tmp_path / "a.json", rank=1), profile(tmp_path / "kernels.csv")], store)
        counts = [(r["n_ops"], r["n_events"], r["n_launches"]) for r in answer.files.rows()]
        assert counts == [(3, 3, None), (0, 0, 1)]

    def test_alone_it_is_asked_for_throughput(self, tmp_path, store):
        printed = as_terminal(ingest([profile(tmp_path / "kernels.csv")], store), 20, None, 400)
        assert "launches" in printed and "n_ops" not in printed and "traceanalyzer gaps" not in printed
        assert "next:\n  traceanalyzer throughput " in printed
        with traceanalyzer.open(store) as traces:
            for question in ("gaps", "ledger", "kernels", "streams", "launches", "steps"):
                answer = traces.ask(question)
                assert any("profiled kernels only" in w and "throughput`" in w for w in answer.warnings), question
                assert "next:" not in as_terminal(answer, 20, None, 400)
            assert "next:\n  traceanalyzer throughput " in as_terminal(traces.info(), 20, None, 400)

    def test_beside_a_timeline_both_are_asked_for(self, tmp_path, store):
        printed = as_terminal(ingest([trace(tmp_path / "a.json"), profile(tmp_path / "k.csv")], store), 20, None, 400)
        assert "launches" in printed and "n_ops" in printed and "traceanalyzer gaps" in printed

    def test_warnings_of_a_file_stand_under_what_it_contributes_to(self, tmp_path, store):
        (tmp_path / "cut.json").write_text(trace(tmp_path / "whole.json").read_text()[:-40])
        (tmp_path / "cut.csv").write_text(profile(tmp_path / "whole.csv").read_text() + '"1","7","pyt')
        (tmp_path / "session.csv").write_text('"Session Attribute","Value"\n"Host Name","node0"\n')
        ingest([tmp_path / name for name in ("cut.json", "cut.csv", "session.csv")], store, run="one")
        with traceanalyzer.open(store) as traces:
            of = {q: {w.partition(":")[0] for w in traces.ask(q).warnings} for q in ("gaps", "throughput", "info")}
        assert of == {
            "gaps": {"cut.json"},
            "throughput": {"cut.json", "cut.csv"},
            "info": {"cut.json", "cut.csv", "session.csv"},
        }

    def test_a_file_without_launches_says_so_where_no_other_has_some(self, tmp_path, store):
        (tmp_path / "session.csv").write_text('"Session Attribute","Value"\n"Host Name","node0"\n')
        ingest([tmp_path / "session.csv"], store)
        with traceanalyzer.open(store) as traces:
            assert any(w.startswith("session.csv: The file holds no") for w in traces.throughput().warnings)
            assert any(w.startswith("session.csv: The file holds no") for w in traces.info().warnings)


class TestReportsWithoutThePackage:
    @pytest.fixture(autouse=True)
    def _without(self, monkeypatch, tmp_path):
        monkeypatch.setattr(recognise, "can_read_reports", lambda: False)
        monkeypatch.setenv("TRACEANALYZER_CACHE", str(tmp_path / "cache"))
        (tmp_path / "job").mkdir()
        (tmp_path / "job" / "k.ncu-rep").write_bytes(report())

    def test_in_a_folder_they_are_left_out_and_that_is_said(self, tmp_path, store):
        profile(tmp_path / "job" / "kernels.csv")
        answer = ingest([tmp_path / "job"], store)
        assert [Path(r["path"]).name for r in answer.files.rows()] == ["kernels.csv"]
        (said,) = answer.warnings
        assert said.startswith("left out: ") and "k.ncu-rep: a report of ncu" in said and "pip install" in said
        for _ in range(2):  # with the cache and without
            with traceanalyzer.TraceSet.of_files([tmp_path / "job"]) as traces:
                assert traces.throughput().warnings == [said]

    def test_a_folder_of_nothing_else_is_refused_with_what_to_do(self, tmp_path, store):
        with pytest.raises(SourceError, match=r"k\.ncu-rep: a report of ncu; .* pip install"):
            ingest([tmp_path / "job"], store)
        assert not store.exists()


class TestFiles:
    def test_folder_glob_and_file_in_one_call(self, tmp_path, store):
        (tmp_path / "folder").mkdir()
        trace(tmp_path / "folder" / "rank10.json", shift=10)
        trace(tmp_path / "folder" / "rank2.json", shift=2)
        (tmp_path / "folder" / "notes.txt").write_text("nothing")
        trace(tmp_path / "rank0.json.gz")
        answer = ingest([tmp_path / "folder", str(tmp_path / "rank*.gz")], store)
        assert [Path(r["path"]).name for r in answer.files.rows()] == ["rank2.json", "rank10.json", "rank0.json.gz"]

    def test_the_same_content_is_ingested_once(self, tmp_path, store):
        one = trace(tmp_path / "one.json", rank=0)
        shutil.copy(one, tmp_path / "copy.json")
        answer = ingest([one, tmp_path / "copy.json"], store)
        assert [r["status"] for r in answer.files.rows()] == ["ingested", "skipped"]
        assert len(captures(store)) == 1

    @pytest.mark.parametrize(
        "content", [b"", b"text", b'{"a": 1', b"[1, 2, 3]", b'["traceEvents", "kernel"]', bytes(4096)]
    )
    def test_what_is_no_trace_is_refused_in_one_line_and_leaves_no_store(self, tmp_path, store, content):
        (tmp_path / "x.json").write_bytes(content)
        with pytest.raises(SourceError) as error:
            ingest([tmp_path / "x.json"], store)
        assert "\n" not in str(error.value)
        assert "x.json" in str(error.value)
        assert not store.exists()

    def test_missing_files_and_empty_folders(self, tmp_path):
        (tmp_path / "empty").mkdir()
        for path in (tmp_path / "none.json", tmp_path / "empty", tmp_path / "*.nothing"):
            with pytest.raises(SourceError):
                find_files([path])
        (tmp_path / "x.csv").write_text("city,people\nOslo,700000\n")
        with pytest.raises(UnknownFormatError, match="not a trace that any reader knows"):
            find_files([tmp_path / "x.csv"])

    def test_progress_ends_at_all_bytes(self, tmp_path, store):
        seen = []
        files = [trace(tmp_path / f"rank{k}.json", shift=k) for k in range(3)]
        ingest(files, store, progress=lambda path, done, total: seen.append((done, total)))
        total = sum(f.stat().st_size for f in files)
        assert seen[-1] == (total, total)
        assert [done for done, _ in seen] == sorted(done for done, _ in seen)


@pytest.mark.usefixtures("stores_made_anew")
class TestAllOrNothing:
    def test_an_error_while_reading_leaves_nothing_of_the_file(self, tmp_path, store, monkeypatch):
        from traceanalyzer.store import commit

        ingest([trace(tmp_path / "rank0.json")], store)
        monkeypatch.setattr(commit, "_rank_devices", lambda *_: (_ for _ in ()).throw(duckdb.IOException("disk full")))
        with pytest.raises(StoreError, match="disk full"):
            ingest([trace(tmp_path / "rank1.json", shift=1)], store)
        monkeypatch.undo()
        with duckdb.connect(str(store), read_only=True) as connection:
            for table in ("captures", "gpu_ops", "cpu_events", "processes"):
                assert connection.execute(f"SELECT DISTINCT capture FROM stored.{table}").fetchall() == [(0,)]
        ingest([tmp_path / "rank1.json"], store)
        assert list(captures(store)) == ["rank1.json"]

    @pytest.mark.skipif(os.name != "posix", reason="SIGKILL is POSIX")
    def test_killed_at_any_moment_the_store_holds_whole_files(self, tmp_path, store):
        files = [trace(tmp_path / f"rank{k}.json", shift=k, n=4000) for k in range(3)]
        whole = 8000
        command = [sys.executable, "-m", "traceanalyzer", "ingest", "-q", "--db", str(store), *map(str, files)]
        begun = time.monotonic()
        subprocess.run(command, check=True, capture_output=True)
        took = time.monotonic() - begun
        rng = random.Random(1)
        for _ in range(4):
            store.unlink(missing_ok=True)
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(took * (0.3 + 0.7 * rng.random()))
            process.send_signal(signal.SIGKILL)
            process.wait()
            if store.exists():
                with duckdb.connect(str(store), read_only=True) as connection:
                    counts = connection.execute(
                        "SELECT (SELECT count(*) FROM stored.gpu_ops o WHERE o.capture = c.capture)"
                        " + (SELECT count(*) FROM stored.cpu_events e WHERE e.capture = c.capture)"
                        " FROM stored.captures c"
                    ).fetchall()
                    assert all(n == whole for (n,) in counts)
                    orphans = "SELECT count(*) FROM stored.gpu_ops ANTI JOIN stored.captures USING (capture)"
                    assert connection.execute(orphans).fetchall() == [(0,)]
            subprocess.run(command, check=True, capture_output=True)
            assert len(captures(store)) == 3


class TestFolders:
    def test_a_stray_file_in_a_folder_is_left_out_with_a_warning(self, tmp_path, store):
        folder = tmp_path / "job"
        folder.mkdir()
        (folder / "config.json").write_text('{"a": 1}')
        trace(folder / "rank0.json")
        answer = ingest([folder], store)
        assert list(captures(store)) == ["rank0.json"]
        assert any("left out" in w and "config.json" in w for w in answer.warnings)

    def test_a_folder_of_strays_is_refused(self, tmp_path, store):
        folder = tmp_path / "job"
        folder.mkdir()
        (folder / "config.json").write_text('{"a": 1}')
        with pytest.raises(SourceError, match=r"config\.json"):
            ingest([folder], store)
        assert not store.exists()


class TestPrivacy:
    def test_home_folders_do_not_name_their_user(self, tmp_path, store):
        path = trace(tmp_path / "t.json")
        document = json.loads(path.read_text())
        document["traceEvents"].append(
            {
                "ph": "X",
                "cat": "python_function",
                "name": "/home/alice/project/train.py(7): step",
                "pid": 100,
                "tid": 100,
                "ts": 1000,
                "dur": 500,
                "args": {"Python id": 1},
            }
        )
        path.write_text(json.dumps(document))
        ingest([path], store)
        with traceanalyzer.open(store) as traces:
            rows = list(traces.sql("SELECT file, frame FROM stack_nodes WHERE file IS NOT NULL").rows.rows())
        assert rows == [{"file": "~/project/train.py", "frame": "step (train.py:7)"}]
        assert b"alice" not in store.read_bytes()
        ingest([path], tmp_path / "kept.duckdb", keep_environment=True)
        with traceanalyzer.open(tmp_path / "kept.duckdb") as traces:
            rows = list(traces.sql("SELECT file FROM stack_nodes WHERE file IS NOT NULL").rows.rows())
        assert rows == [{"file": "/home/alice/project/train.py"}]
