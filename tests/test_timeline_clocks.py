"""Which clock a timeline is on, and what it says of how each rank was put there."""

import json
from itertools import permutations
from pathlib import Path

import pytest

import traceanalyzer
from tests.support.store_builder import Capture, store_of
from tests.support.timeline_checker import Timeline
from tests.support.torch_reading import call, kernel
from traceanalyzer.ingestion import ingest
from traceanalyzer.store.database import open_to_write

NCU = Path(__file__).parents[1] / "sample_traces" / "kernel_limits" / "raw.csv.gz"
UNIX = 1_700_000_000_000_000_000
MS, US = 1_000_000, 1_000


def torch_file(folder, rank, base_ns):
    """A trace of a rank whose only kernel begins 5 us after an instant of Unix time."""
    events = [call(correlation=1), kernel(correlation=1, device=0, stream=7)]
    about = {"schemaVersion": 1, "baseTimeNanoseconds": base_ns, "distributedInfo": {"rank": rank, "world_size": 2}}
    path = folder / f"rank{rank}.json"
    path.write_text(json.dumps(about | {"traceEvents": events}))
    return path


def exported(store, path, **selection):
    with traceanalyzer.open(store) as traces:
        answer = traces.export_timeline(path, **selection)
    return Timeline(path), answer.warnings


def starts_of_kernels(timeline):
    """When kernels begin, in Unix time, by rank."""
    rank_of = {device["pid"]: device["rank"] for device in timeline.about["traceanalyzer"]["devices"]}
    base = timeline.about["baseTimeNanoseconds"]
    return {rank_of[event["pid"]]: base + event["ts"] for event in timeline.of("kernel")}


def labels(timeline):
    return {e["args"]["labels"] for e in timeline.events if e["name"] == "process_labels"}


@pytest.mark.parametrize("align", ["collectives", "utc"])
def test_files_in_any_order_stand_at_the_same_time_of_day(tmp_path, align):
    """Without collectives only the time of day connects ranks; a file that has no timeline is no reference."""
    files = [torch_file(tmp_path, 0, UNIX), torch_file(tmp_path, 1, UNIX + 5 * MS), NCU]
    for k, order in enumerate(permutations(files)):
        ingest(order, tmp_path / f"{k}.duckdb")
        timeline, _ = exported(tmp_path / f"{k}.duckdb", tmp_path / f"{k}.json", align=align)
        assert starts_of_kernels(timeline) == {0: UNIX + 5 * US, 1: UNIX + 5 * MS + 5 * US}
        clock = timeline.about["traceanalyzer"]["clock"]
        assert (clock["reference_rank"], clock["unix_time_known"]) == (0, True)
        ranks = {r["rank"]: (r["placed_by"], r["offset_ns"]) for r in clock["ranks"]}
        assert ranks == {0: ("as recorded", 0), 1: ("time of day", -5 * MS)}


def test_one_rank_beside_a_file_without_a_timeline_keeps_its_time_of_day(tmp_path):
    ingest([NCU, torch_file(tmp_path, 1, UNIX)], tmp_path / "s.duckdb")
    timeline, _ = exported(tmp_path / "s.duckdb", tmp_path / "t.json")
    assert starts_of_kernels(timeline) == {1: UNIX + 5 * US}


def test_the_reference_tells_the_time_of_day_if_any_rank_does(tmp_path):
    store = store_of(tmp_path / "s.duckdb", Capture().kernel(0, 1), Capture().kernel(0, 1), Capture().kernel(0, 1))
    _set_utc(store, {1: UNIX + 10, 2: UNIX})
    timeline, _ = exported(store, tmp_path / "t.json")
    clock = timeline.about["traceanalyzer"]["clock"]
    assert clock["reference_rank"] == 1 and clock["unix_time_known"]
    assert [r["placed_by"] for r in clock["ranks"]] == ["as recorded", "as recorded", "time of day"]
    assert starts_of_kernels(timeline)[2] == UNIX and starts_of_kernels(timeline)[1] == UNIX + 10


def _set_utc(store, offsets):
    connection = open_to_write(store)
    for capture, offset in offsets.items():
        connection.execute("UPDATE stored.captures SET utc_offset_ns = ? WHERE capture = ?", [offset, capture])
    connection.close()


def islands():
    """Two pairs of ranks, each with all-reduces of its own; in each the second one's clock is 1 us ahead."""
    captures = []
    for pair in ((0, 1), (2, 3)):
        for rank in pair:
            capture, ahead = Capture(), US * (rank % 2)
            for c in range(6):
                begin = MS * c * c + ahead
                end = begin + 300 * US + 40 * (c % 3) * (rank % 2)
                capture.communication(begin, end, group=str(pair[0]), ranks=pair)
            captures.append(capture)
    return captures


def test_another_island_of_collectives_is_placed_by_the_time_of_day(tmp_path):
    store = store_of(tmp_path / "s.duckdb", *islands())
    _set_utc(store, {0: UNIX, 1: UNIX - US, 2: UNIX + 7 * US, 3: UNIX})
    timeline, warnings = exported(store, tmp_path / "t.json")
    ranks = {r["rank"]: r for r in timeline.about["traceanalyzer"]["clock"]["ranks"]}
    assert {rank: r["placed_by"] for rank, r in ranks.items()} == {
        0: "as recorded",
        1: "ends of collectives",
        2: "time of day",
        3: "time of day",
    }
    assert ranks[2]["offset_ns"] == -7 * US and ranks[3]["offset_ns"] - ranks[2]["offset_ns"] in range(US, US + 81)
    assert [ranks[k]["residual_p95_ns"] is None for k in range(4)] == [False, False, True, True]
    assert [ranks[k]["component"] for k in range(4)] == [0, 0, 1, 1]
    assert {text.partition(", residual")[0] for text in labels(timeline) if "residual" in text} == {
        "clock: ends of collectives"
    }
    assert "clock: time of day" in labels(timeline)
    assert any("placed by the time of day" in warning for warning in warnings)


def test_an_island_that_nothing_places_says_so(tmp_path):
    store = store_of(tmp_path / "s.duckdb", *islands())
    timeline, warnings = exported(store, tmp_path / "t.json")
    ranks = timeline.about["traceanalyzer"]["clock"]["ranks"]
    assert [r["placed_by"] for r in ranks] == [
        "as recorded",
        "ends of collectives",
        *["ends of its own collectives only"] * 2,
    ]
    assert [r["residual_p95_ns"] is None for r in ranks] == [False, False, True, True]
    assert any("cannot be compared" in warning for warning in warnings)


@pytest.mark.parametrize(("align", "placed"), [("none", "as recorded"), ("utc", "time of day")])
def test_what_was_not_estimated_has_no_residual(tmp_path, align, placed):
    store = store_of(tmp_path / "s.duckdb", *islands())
    _set_utc(store, dict.fromkeys(range(4), UNIX))
    timeline, _ = exported(store, tmp_path / "t.json", align=align)
    ranks = timeline.about["traceanalyzer"]["clock"]["ranks"]
    assert [r["placed_by"] for r in ranks] == ["as recorded", placed, placed, placed]
    assert {r["residual_p95_ns"] for r in ranks} == {None}
