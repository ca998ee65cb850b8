"""The recorder of jobs of several ranks: what it plants, writes and strips, as far as that needs no PyTorch."""

import json
import sqlite3
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def standalone(monkeypatch):
    """The recorder is a folder to be copied to another machine, not a part of this package."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


def test_one_rank_sleeps_in_every_step_and_it_begins_no_tensor_parallel_group():
    from recording.groups import data_groups, tensor_groups
    from recording.plants import plants

    for world in range(2, 40):
        plant = plants(world)["late_host"]
        late = [[r for r in range(world) if plant.sleeps(r, step, world)] for step in range(5)]
        assert late == [[plant.rank]] * 5
        assert plant.as_truth() == {"rank": plant.rank, "sleeps_ms": 8.0, "function": "load_extra_batch"}
        assert plant.rank not in [group[0] for group in tensor_groups(world)]
        for groups in (tensor_groups(world), data_groups(world)):
            assert sorted(rank for group in groups for rank in group) == list(range(world))


def test_ranks_take_turns():
    from recording.plants import plants

    plant = plants(4)["takes_turns"]
    assert [[r for r in range(4) if plant.sleeps(r, step, 4)] for step in range(6)] == [[0], [1], [2], [3], [0], [1]]


def test_one_rank_works_more_and_nobody_sleeps():
    from recording.plants import plants

    plant = plants(8)["more_work"]
    assert [plant.works_more(rank) for rank in range(8)] == [0, 0, 0, 0.15, 0, 0, 0, 0]
    assert not any(plant.sleeps(rank, step, 8) for rank in range(8) for step in range(8))


def measured(step_ms, late_ms):
    return {"steps": 2, "first_step": 7, "median_step_ms": step_ms[0], "host_step_ms": step_ms, "late_ms": late_ms}


def test_truths_of_ranks_become_one(tmp_path):
    from recording.truth import write_truth

    for rank in range(11):
        about = {"pattern": "pipeline", "ranks": 11, "measured": {"torch": measured([rank, 1.5], [0.0, rank * 2.0])}}
        (tmp_path / f"rank{rank}.torch.truth").write_text(json.dumps(about))
    later = {"pattern": "pipeline", "ranks": 11, "measured": {"nsys": measured([3.0, 3.0], [0.0, 0.0])}}
    (tmp_path / "rank0.nsys.truth").write_text(json.dumps(later))
    write_truth(tmp_path, 11, share_gpu=False)
    assert [path.name for path in tmp_path.iterdir()] == ["truth.json"]
    text = (tmp_path / "truth.json").read_text()
    truth = json.loads(text)
    assert (truth["pattern"], truth["share_one_gpu"]) == ("pipeline", False)
    # In the order of the ranks, of which the tenth does not come after the first.
    assert truth["measured"]["torch"]["late_ms"] == [[0.0, rank * 2.0] for rank in range(11)]
    assert truth["measured"]["torch"]["median_step_ms"] == 5
    assert truth["measured"]["nsys"]["host_step_ms"] == [[3.0, 3.0]]
    assert "[0.0, 20.0]" in text


def test_a_report_keeps_nothing_of_its_machine(tmp_path, monkeypatch):
    from recording import nsys

    monkeypatch.setattr("socket.gethostname", lambda: "vm")
    database = tmp_path / "r.sqlite"
    job, other = 0x1000000 * 7, 0x1000000 * 9
    with sqlite3.connect(database) as connection:
        connection.executescript(
            f"""
            CREATE TABLE StringIds (id INTEGER, value TEXT);
            CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT);
            CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
            CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, value TEXT);
            CREATE TABLE TARGET_INFO_GPU (id INTEGER, uuid TEXT, busLocation TEXT);
            CREATE TABLE TARGET_INFO_NIC_INFO (name TEXT);
            CREATE TABLE ANALYSIS_FILE (filename TEXT);
            CREATE TABLE ProcessStreams (filenameId INTEGER, contentId INTEGER);
            CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
            CREATE TABLE ThreadNames (nameId INTEGER, globalTid INTEGER);
            CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (globalTid INTEGER);
            INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:ENVIRONMENT_VARIABLE', 'TOKEN=secret'),
                ('PROCESS_0:ENVIRONMENT_VARIABLE', 'RANK="3"'), ('PROCESS_0:USER_NAME', 'secret'),
                ('DEVICE_DISPLAY_NAME', 'secret'), ('PROCESS_0:WORKING_DIR', '/secret'),
                ('CAPTURE_EVENT_TYPE', 'Cuda');
            INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_HOST', 'secret'), ('EXPORT_PARAM_INPUT_PATH', '/secret'),
                ('EXPORT_SCHEMA_VERSION', '3.20.3');
            INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES ('DeviceEnvironment', 'TOKEN=secret'), ('SomethingNew', 'secret'),
                ('CpuCores', '16');
            INSERT INTO TARGET_INFO_GPU VALUES (0, 'secret', 'secret'), (1, 'secret', 'secret');
            INSERT INTO TARGET_INFO_NIC_INFO VALUES ('secret');
            INSERT INTO ANALYSIS_FILE VALUES ('/secret');
            INSERT INTO ProcessStreams VALUES (5, 6);
            INSERT INTO PROCESSES VALUES (1, 1, 'secretd'), (2, 2, 'python3');
            INSERT INTO ThreadNames VALUES (4, {other}), (2, {job}), (2, {other});
            INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({job});
            """
        )
        strings = ["TOKEN=secret\0HOME=/secret\0", "pt_main_thread", "nvml on vm", "secretd", "/secret", "secret text"]
        connection.executemany("INSERT INTO StringIds VALUES (?, ?)", enumerate(strings, 1))
    nsys.strip_identities(database)
    assert b"secret" not in database.read_bytes()
    with sqlite3.connect(database) as connection:
        texts = [value for (value,) in connection.execute("SELECT value FROM StringIds ORDER BY id")]
        # A short name of a host is not looked for inside of other words.
        assert texts == ["", "pt_main_thread", "nvml on node0", "", "", ""]
        kept = connection.execute("SELECT * FROM META_DATA_CAPTURE").fetchall()
        assert kept == [("PROCESS_0:ENVIRONMENT_VARIABLE", 'RANK="3"'), ("CAPTURE_EVENT_TYPE", "Cuda")]
        assert connection.execute("SELECT * FROM META_DATA_EXPORT").fetchall() == [("EXPORT_SCHEMA_VERSION", "3.20.3")]
        assert connection.execute("SELECT * FROM TARGET_INFO_SYSTEM_ENV").fetchall() == [("CpuCores", "16")]
        assert connection.execute("SELECT * FROM ThreadNames").fetchall() == [(2, job)]
        assert connection.execute("SELECT uuid, busLocation FROM TARGET_INFO_GPU").fetchall() == [
            ("GPU-00000000-0000-0000-0000-000000000000", "0000:00:00.0"),
            ("GPU-00000000-0000-0000-0000-000000000001", "0000:01:00.0"),
        ]
        assert connection.execute("SELECT name FROM PROCESSES").fetchall() == [("python3",)]
