"""Which row of a timeline events of devices stand on: they nest there, also where their device is not known."""

import json
import random
from collections import Counter

import pytest

import traceanalyzer
from tests.support.real_traces import MISSING, SHARED
from tests.support.store_builder import Capture, store_of
from tests.support.timeline_checker import Timeline
from traceanalyzer.ingestion import ingest
from traceanalyzer.schema.kinds import EventKind

ANNOTATION, SYNC = EventKind.DEVICE_ANNOTATION, EventKind.SYNC_RECORD
SYNCED_TWICE = SHARED / "public" / "nsys" / "mpi_openacc_v100_x2023.sqlite.gz"


def on_device(capture, kind, name, start, end, device, **more):
    """An event as torch.profiler's rows of devices have them: of no thread, its device among its arguments."""
    capture.event(kind, name, start, end, thread=None)
    capture.events[-1] |= {"args": json.dumps({"device": device, "stream": 7} | more)}
    return capture


def exported(store, path, **selection):
    with traceanalyzer.open(store) as traces:
        traces.export_timeline(path, **selection)
    return Timeline(path)  # which asserts that slices nest


def read_again(file, folder):
    ingest([file], folder / f"{file.stem}.duckdb")
    return folder / f"{file.stem}.duckdb"


def told(timeline, category):
    """(process, row, name, start, end) of slices."""
    return [(e["pid"], e["tid"], e["name"], e["ts"], e["ts"] + e["dur"]) for e in timeline.of(category)]


def test_annotations_of_unknown_devices_share_a_row_and_nest(tmp_path):
    capture = Capture().kernel(0, 10)
    for name, start, end, device in (("A", 30, 80, 5), ("B", 40, 110, 6), ("C", 200, 250, 5)):
        on_device(capture, ANNOTATION, name, start, end, device)
    timeline = exported(store_of(tmp_path / "s.duckdb", capture), tmp_path / "t.json")
    (a, b, c) = told(timeline, "gpu_user_annotation")
    apart = timeline.about["traceanalyzer"]["lanes_apart"]
    assert [slice_[2:] for slice_ in (a, b, c)] == [("A", 30, 80), ("B", 40, 110), ("C", 200, 250)]
    assert a[:2] == c[:2] and b[:2] == (a[0], a[1] + apart)


def three_devices():
    capture = Capture()
    for device in (0, 1, 2):
        capture.launch(device, device + 1, device + 1).kernel(10, 100, device + 1, device=device)
        on_device(capture, SYNC, f"sync {device}", 20 + 10 * device, 60 + 10 * device, device)
        on_device(capture, ANNOTATION, f"range {device}", 20 + 10 * device, 60 + 10 * device, device)
    return capture.event(SYNC, "of no device", 25, 65, thread=None)


def test_a_device_leaves_out_what_belongs_to_others(tmp_path):
    store = store_of(tmp_path / "s.duckdb", on_device(three_devices(), ANNOTATION, "of an unknown one", 0, 9, 8))
    names = {
        device: Counter(e["name"] for e in exported(store, tmp_path / f"{device}.json", device=device).slices)
        for device in (0, 1, None)
    }
    for device in (0, 1):
        mine = {f"sync {device}", f"range {device}", "of no device"}
        assert {name for name in names[device] if name.startswith(("sync", "range", "of "))} == mine
    assert names[None].total() > names[0].total() and len(names[None]) == len(names[0]) + 5


def test_a_rank_leaves_out_what_belongs_to_devices_of_others(tmp_path):
    store = store_of(tmp_path / "s.duckdb", three_devices(), three_devices())
    exported(store, tmp_path / "all.json")
    one = exported(read_again(tmp_path / "all.json", tmp_path), tmp_path / "one.json", rank="1")
    assert sorted(e["name"] for e in one.of("gpu_user_annotation")) == ["range 0", "range 1", "range 2"]
    assert [e["name"] for e in one.of("cuda_sync")] == ["sync 0", "of no device", "sync 1", "sync 2"]


def test_events_of_devices_keep_device_and_process_however_often_they_are_exported(tmp_path):
    """Both ranks have devices 0 to 2 in one process of the same number: one of them gets other numbers."""
    store = store_of(tmp_path / "s.duckdb", three_devices(), three_devices())
    first = exported(store, tmp_path / "1.json")
    rows = {(d["pid"], d["device"]): (d["rank"], d["recorded_device"]) for d in first.about["traceanalyzer"]["devices"]}
    assert sorted(device for _, device in rows) == [0, 1, 2, 3, 4, 5]
    for category in ("gpu_user_annotation", "cuda_sync"):
        for event in first.of(category):
            if event["name"] != "of no device":
                _, device = rows[event["pid"], event["args"]["device"]]
                assert event["name"].endswith(f" {device}") and event["args"]["stream"] == 7
    again = read_again(tmp_path / "1.json", tmp_path)
    with traceanalyzer.open(again) as traces:
        query = "SELECT DISTINCT rank, process, name, args FROM cpu_events WHERE kind IN ('{}', '{}') ORDER BY ALL"
        found = list(traces.sql(query.format("device_annotation", "sync_record")).rows.rows())
    assert len(found) == 14 and Counter(row["rank"] for row in found) == {0: 7, 1: 7}
    without = [json.loads(row["args"]) for row in found if row["name"] == "of no device"]
    assert without == [{}, {}]  # and not the numbers of rows in the file
    second = exported(again, tmp_path / "2.json")
    for category in ("gpu_user_annotation", "cuda_sync"):
        assert [slice_[2:] for slice_ in told(first, category)] == [slice_[2:] for slice_ in told(second, category)]
        assert [e["args"].get("device") for e in first.of(category)] == [
            e["args"].get("device") for e in second.of(category)
        ]


def test_what_has_any_device_or_process_nests_at_every_export(tmp_path):
    """Events that cross in every way, of known and unknown devices, some with the process and some without."""
    chance = random.Random(7)
    capture = three_devices()
    for k in range(300):
        start, kind = chance.randrange(400), chance.choice((ANNOTATION, SYNC))
        on_device(capture, kind, f"{k}", start, start + chance.randrange(60), chance.choice((-1, 0, 2, 5, 6, 9)))
        capture.events[-1]["process"] = chance.choice((100, None))
        start = chance.randrange(400)
        capture.event(EventKind.OVERHEAD, f"o{k}", start, start + chance.randrange(40), thread=None)
        capture.events[-1]["process"] = chance.choice((100, None))
    first = exported(store_of(tmp_path / "s.duckdb", capture), tmp_path / "1.json")
    second = exported(read_again(tmp_path / "1.json", tmp_path), tmp_path / "2.json")
    for category in ("gpu_user_annotation", "cuda_sync", "overhead"):
        slices = [sorted(slice_[2:] for slice_ in told(timeline, category)) for timeline in (first, second)]
        assert slices[0] == slices[1] and len(slices[0]) >= 100


@pytest.mark.skipif(not SYNCED_TWICE.is_file(), reason=MISSING)
def test_an_exported_file_of_two_devices_can_be_exported_again(tmp_path):
    ingest([SYNCED_TWICE], tmp_path / "s.duckdb")
    first = exported(tmp_path / "s.duckdb", tmp_path / "1.json")
    second = exported(read_again(tmp_path / "1.json", tmp_path), tmp_path / "2.json")
    assert len(first.of("cuda_sync")) == len(second.of("cuda_sync")) > 0
