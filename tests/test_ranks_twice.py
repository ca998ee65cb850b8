"""A rank that a run already has from like sources is refused, also where a file of several ranks brings it."""

import json

import pytest

import traceanalyzer
from tests.support.real_traces import MISSING, TRACES
from tests.support.torch_reading import call, kernel
from traceanalyzer.errors import StoreError
from traceanalyzer.ingestion import ingest

UNIX = 1_700_000_000_000_000_000
NSYS = TRACES / "ddp2_slow1"


def torch_file(folder, rank, base_ns, name="rank{}.json"):
    """A trace of two kernels, 1 ms apart; far from zero, so that a timeline's own clock is another."""
    events = []
    for k in (1, 2):
        at = 1_000_000_000 + 1_000 * k
        events.append(call(correlation=k, ts=at, pid=10 + rank))
        events.append(kernel(correlation=k, device=0, stream=7, ts=at + 5))
    about = {"distributedInfo": {"rank": rank, "world_size": 3}} | ({"baseTimeNanoseconds": base_ns} if base_ns else {})
    path = folder / name.format(rank)
    path.write_text(json.dumps(about | {"traceEvents": events}))
    return path


@pytest.fixture(scope="module", params=[0, UNIX], ids=["no time of day", "time of day"])
def files(request, tmp_path_factory):
    """Traces of ranks 0 to 2, and timelines of some of them."""
    folder = tmp_path_factory.mktemp("files")
    ranks = [torch_file(folder, rank, request.param) for rank in (0, 1, 2)]
    ingest(ranks, folder / "s.duckdb")
    with traceanalyzer.open(folder / "s.duckdb") as traces:
        for name, chosen in (("t01", "0,1"), ("t12", "1,2"), ("t0", "0"), ("t1", "1"), ("t2", "2")):
            traces.export_timeline(folder / f"{name}.json", rank=chosen)
    return folder


@pytest.mark.parametrize(
    ("pair", "rank"),
    [
        (("t01", "rank0"), 0),
        (("rank1", "t01"), 1),
        (("t01", "t12"), 1),
        (("t0", "rank0"), 0),
        (("rank1", "t1"), 1),
        (("t1", "t12"), 1),
    ],
)
def test_a_rank_is_not_counted_twice(files, tmp_path, pair, rank):
    first, second = (files / f"{name}.json" for name in pair)
    with pytest.raises(StoreError) as caught:
        ingest([first, second], tmp_path / "s.duckdb")
    text = str(caught.value)
    assert text.startswith(f"{second}: rank {rank} of run ") and f"was already recorded by torch in {first};" in text
    assert "--run NAME" in text and "\n" not in text


@pytest.mark.parametrize("pair", [("t01", "rank2"), ("rank0", "t12"), ("t01", "t2")])
def test_files_of_other_ranks_make_one_run(files, tmp_path, pair):
    ingest([files / f"{name}.json" for name in pair], tmp_path / "s.duckdb")
    with traceanalyzer.open(tmp_path / "s.duckdb") as traces:
        devices = sorted((row["rank"], row["n_ops"]) for row in traces.gaps().devices.rows())
    assert devices == [(0, 2), (1, 2), (2, 2)]


def test_timelines_of_two_windows_of_the_same_ranks_are_one_run(tmp_path):
    ranks = [torch_file(tmp_path, rank, UNIX) for rank in (0, 1)]
    ingest(ranks, tmp_path / "s.duckdb")
    with traceanalyzer.open(tmp_path / "s.duckdb") as traces:
        traces.export_timeline(tmp_path / "a.json", window="0:0.0005")
        traces.export_timeline(tmp_path / "b.json", window="0.0005:1")
    ingest([tmp_path / "a.json", tmp_path / "b.json"], tmp_path / "back.duckdb")
    with traceanalyzer.open(tmp_path / "back.duckdb") as traces:
        counts = sorted((row["rank"], row["n_ops"]) for row in traces.gaps().devices.rows())
    assert counts == [(0, 1), (0, 1), (1, 1), (1, 1)]


@pytest.mark.skipif(not NSYS.is_dir(), reason=MISSING)
@pytest.mark.parametrize("order", [1, -1])
def test_reports_of_nsys_are_recordings_of_the_same_work(tmp_path, order):
    """One report of both processes, and one of rank 0 alone: the check-up chooses, so both may be there."""
    pair = [NSYS / "nsys.rank0.sqlite.gz", NSYS / "nsys.sqlite.gz"][::order]
    ingest(pair, tmp_path / "s.duckdb")
    with traceanalyzer.open(tmp_path / "s.duckdb") as traces:
        assert len(traces.info().captures) == 2
