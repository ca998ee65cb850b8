"""Several recordings of one program in a folder: one of them counts, and that is said."""

import pytest

from tests.support.real_traces import MISSING, TRACES, TRUTH
from tests.support.store_builder import Capture, store_of
from traceanalyzer import open as open_store
from traceanalyzer.schema.kinds import EventKind
from traceanalyzer.traceset import TraceSet


def checked(*files):
    with TraceSet.of_files([TRACES / file for file in files]) as traces:
        return traces.checkup()


@pytest.mark.skipif(not TRUTH, reason=MISSING)
def test_files_that_nothing_makes_ranks_are_recordings_of_one_program():
    answer = checked("mem_leak/torch.json.gz", "mem_leak/torch.stack.json.gz", "mem_leak/nsys.sqlite.gz")
    assert len({row["capture"] for row in answer.charges.rows()}) == 1
    (said,) = [text for text in answer.warnings if "of the same work left out" in text]
    assert said.startswith("made from torch.stack.json.gz (capture ") and "; 1 recording of the same work" in said
    alone = checked("mem_leak/torch.stack.json.gz")
    first, only = (next(iter(each.verdicts.rows())) for each in (answer, alone))
    assert (first["verdict"], first["cost_ns"]) == (only["verdict"], only["cost_ns"])


@pytest.mark.skipif(not TRUTH, reason=MISSING)
def test_of_a_rank_with_and_without_frames_the_slower_recording_is_left_out():
    names = [f"fsdp2/rank{rank}{kind}.json.gz" for rank in (0, 1) for kind in ("", ".stack")]
    answer = checked(*names)
    (said,) = [text for text in answer.warnings if "of the same work left out" in text]
    assert said == (
        "made from rank0.json.gz (capture 0), rank1.json.gz (capture 2); 2 recordings of the same work left out"
        " (rank0.stack.json.gz (capture 1), rank1.stack.json.gz (capture 3)): --capture chooses others"
    )
    for evidence in (each for row in answer.verdicts.rows() for each in row["evidence"]):
        assert "--capture 0,2" in evidence["command"]
    assert {row["rank"] for row in answer.charges.rows()} == {0, 1}
    lengths = TRUTH["workloads"]["fsdp2"]["captures"]["rank0.json.gz"]["mean_step_ms"]
    step = sum(row["per_step_ns"] for row in answer.charges.rows() if row["rank"] == 0)
    assert step == pytest.approx(lengths * 1e6, rel=0.05)


def test_windows_of_one_rank_all_count(tmp_path):
    """Two captures of a rank that the files state, recorded alike: nothing is left out."""
    captures = []
    for _ in range(2):
        capture = Capture()
        for step in range(4):
            capture.event(EventKind.STEP_MARK, f"ProfilerStep#{step}", 1000 * step, 1000 * step + 1000)
            capture.launch(1000 * step + 100, 1000 * step + 110, step + 1)
            capture.kernel(1000 * step + 200, 1000 * step + 900, step + 1)
        captures.append(capture)
    with open_store(store_of(tmp_path / "s.duckdb", *captures)) as traces:
        answer = traces.checkup()
    assert len({row["capture"] for row in answer.charges.rows()}) == 2
    assert not [text for text in answer.warnings if "left out" in text]
