"""The host beside the GPUs: workers against cores, waits for a CPU, ways between GPUs and cards, settings of NCCL."""

import shlex
from itertools import pairwise

import pytest
from click.testing import CliRunner

import traceanalyzer
from tests.support.real_traces import MISSING, PUBLIC, TRACES, TRUTH, opened
from tests.support.store_builder import Capture, store_of
from traceanalyzer.checkup.host.topology import numbers
from traceanalyzer.cli.main import root
from traceanalyzer.errors import UsageError
from traceanalyzer.schema.kinds import EventKind
from traceanalyzer.schema.sink import CaptureFacts
from traceanalyzer.sources import SOURCES

HOST_CODES = {
    *("workers_exceed_cores", "cpu_contention", "ranks_cross_numa", "ranks_cross_pcie", "nic_far", "mig"),
    *("nccl_socket", "nccl_no_p2p", "nccl_setting", "nccl_version"),
}


def trained(device=0):
    """A rank that runs two kernels with a gap between them, which thread 1 ends."""
    capture = Capture().launch(0, 10, 1).launch(2_000, 2_010, 2)
    return capture.kernel(20, 1_000, 1, device=device).kernel(2_020, 3_000, 2, device=device)


def facts(cores=None, host=None, **environment):
    metadata = {"machine": {"cpu_cores": str(cores)}} if cores else {}
    metadata |= {"environment": environment} if environment else {}
    return CaptureFacts(host=host, metadata=metadata)


def asked(path, **options):
    with traceanalyzer.open(path) as traces:
        return traces.checkup(**options)


def findings(answer):
    return {each.code: each.text for each in answer.findings}


def environment(answer):
    return {row["fact"]: row["value"] for row in answer.environment.rows()}


def matrix(capture, links, affinity=()):
    """A matrix of connections: rows of what `topo -m` prints, the ends by their names."""
    ends = list(links)
    for place, row in links.items():
        for other, link in zip(ends, row.split(), strict=True):
            if other != place:
                capture.place(place, "link", link, other)
    for place, cores in affinity:
        capture.place(place, "cpu_affinity", cores)
    return capture


FOUR = {"GPU0": "X NV4 SYS NODE", "GPU1": "NV4 X SYS PIX", "GPU2": "SYS SYS X PHB", "GPU3": "NODE PIX PHB X"}
CARDS = {
    "GPU0": "X NV18 PIX NODE SYS",
    "GPU1": "NV18 X PIX PXB SYS",
    "NIC0": "PIX PIX X NODE SYS",
    "NIC1": "NODE PXB NODE X SYS",
    "NIC2": "SYS SYS SYS SYS X",
}


def test_more_workers_than_cores_are_told_with_both_numbers(tmp_path):
    ranks = [trained(device) for device in range(8)]
    path = store_of(tmp_path / "s.duckdb", *ranks, facts=facts(cores=32, host="a"))
    answer = asked(path, workers=8)
    assert findings(answer)["workers_exceed_cores"].startswith(
        "8 ranks x 8 loader workers are 64 processes on 32 cores:"
    )
    assert environment(answer)["loader_workers"] == "64 (8 ranks x 8)"
    assert "workers_exceed_cores" not in findings(asked(path, workers=4))


def test_cores_that_are_named_come_before_those_that_were_recorded(tmp_path):
    path = store_of(tmp_path / "s.duckdb", trained(0), trained(1), facts=facts(cores=32))
    answer = asked(path, workers=4, cpus=7)
    assert "8 processes on 7 cores" in findings(answer)["workers_exceed_cores"]
    assert (environment(answer)["cpus_allowed"], environment(answer)["cpu_cores"]) == ("7", "32")
    assert not asked(path, workers=17, cpus=34).findings


def test_ranks_of_two_hosts_do_not_share_cores(tmp_path):
    for place, host in enumerate(("a", "b")):
        store_of(tmp_path / "s.duckdb", trained(place), facts=facts(cores=8, host=host))
    assert not asked(tmp_path / "s.duckdb", workers=8).findings
    text = findings(asked(tmp_path / "s.duckdb", workers=9))["workers_exceed_cores"]
    assert text.startswith("9 loader workers run on 8 cores")


def test_ranks_that_were_not_recorded_have_workers_as_well(tmp_path):
    capture = trained()
    for device in range(4):
        capture.gpu("H200", device)
    known = CaptureFacts(world_size=4, metadata={"machine": {"cpu_cores": "8"}})
    path = store_of(tmp_path / "s.duckdb", capture, facts=known)
    text = findings(asked(path, workers=3))["workers_exceed_cores"]
    assert "4 ranks x 3 loader workers are 12 processes on 8 cores (if all 4 ranks run on this host, of which 1" in text


@pytest.mark.parametrize("named", ["process", "thread"])
def test_workers_are_counted_by_their_names(tmp_path, named):
    capture = trained()
    for number in range(200, 205):
        capture.process(number, "pt_data_worker" if named == "process" else "python3.12")
        capture.thread(number, number, "pt_data_worker")
        capture.thread(number, number + 1000, "python3")
    path = store_of(tmp_path / "s.duckdb", capture, source="nsys", facts=facts(cores=4))
    answer = asked(path)
    assert "5 loader workers run on 4 cores" in findings(answer)["workers_exceed_cores"]
    assert environment(answer)["loader_workers"] == "5"


def test_workers_of_one_epoch_are_not_added_to_those_of_the_next(tmp_path):
    capture = trained()
    for number, start in ((200, 0), (201, 10), (202, 2_000), (203, 2_010), (204, 2_020)):
        capture.process(number, "pt_data_worker").thread(number, number, "pt_data_worker")
        capture.scheduled(start, start + 900, ran=True, process=number, thread=number)
    path = store_of(tmp_path / "s.duckdb", capture, source="nsys")
    answer = asked(path)
    assert environment(answer)["loader_workers"] == "3"


def test_workers_without_a_name_are_processes_of_python_beside_a_loader_that_has_some(tmp_path):
    capture = trained().process(200, "python3.11").process(201, "python3.11").process(202, "bash")
    plain = store_of(tmp_path / "plain.duckdb", capture, source="nsys")
    assert "loader_workers" not in environment(asked(plain))
    capture.event(EventKind.RANGE, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 1_000, 2_000)
    loader = store_of(tmp_path / "loader.duckdb", capture, source="nsys")
    assert environment(asked(loader))["loader_workers"] == "2"


def test_workers_that_files_of_several_ranks_show_are_counted_once(tmp_path):
    def rank(device, *workers):
        capture = trained(device)
        for number in workers:
            capture.process(number, "pt_data_worker").scheduled(0, 900, ran=True, process=number, thread=number)
        return capture

    own = store_of(tmp_path / "own.duckdb", rank(0, 200, 201), rank(1, 202, 203), source="nsys")
    assert environment(asked(own))["loader_workers"] == "4 (2 ranks x 2)"
    all_of_host = store_of(tmp_path / "all.duckdb", rank(0, 200, 201), rank(1, 200, 201), source="nsys")
    assert environment(asked(all_of_host))["loader_workers"] == "2 (2 ranks x 1)"


def test_a_thread_without_a_core_is_told_only_where_the_file_says_why(tmp_path):
    def ran(reason):
        return trained().scheduled(0, 800, ran=True).scheduled(800, 1_000, reason, ran=False)

    preempted = store_of(tmp_path / "a.duckdb", ran("Running"), source="nsys")
    text = findings(asked(preempted))["cpu_contention"]
    assert "thread 1" in text
    assert "no core for 20.0 % of its time" in text
    for reason in (None, "Interruptible"):
        other = store_of(tmp_path / f"{reason}.duckdb", ran(reason), source="nsys")
        assert "cpu_contention" not in findings(asked(other))
        with traceanalyzer.open(other) as traces:
            row = next(traces.gaps().threads.rows())
        assert (row["running_share"], row["runnable_share"]) == (0.8, None if reason is None else 0.0)


def test_workers_without_cores_and_full_cores_are_told(tmp_path):
    capture = trained().process(200, "pt_data_worker").thread(200, 200, "pt_data_worker")
    capture.scheduled(0, 900, ran=True, process=200, thread=200)
    capture.scheduled(900, 1_000, "Running", ran=False, process=200, thread=200)
    path = store_of(tmp_path / "s.duckdb", capture, source="nsys", facts=facts(cores=4))
    texts = [each.text for each in asked(path, cpus=1).findings if each.code == "cpu_contention"]
    assert "no core for 10.0 % of the time" in texts[0]
    assert "keep 0.9 of 1 cores busy" in texts[1]
    assert [each.code for each in asked(path, cpus=2).findings] == ["cpu_contention"]


def test_pairs_without_nvlink_are_told_by_the_way_they_take(tmp_path):
    ranks = [trained(device) for device in range(4)]
    path = store_of(tmp_path / "s.duckdb", *ranks)
    store_of(path, matrix(Capture(), FOUR, [("GPU0", "0-7"), ("GPU1", "0-7"), ("GPU2", "8-15")]), source="nvidia_smi")
    answer = asked(path)
    told = findings(answer)
    assert told["ranks_cross_numa"].startswith("the GPUs in use (0-3): 2 of 6 pairs")
    assert "GPU0 and GPU2 for one" in told["ranks_cross_numa"]
    assert told["ranks_cross_pcie"].startswith("the GPUs in use (0-3): 2 of 6 pairs")
    assert "(PHB, NODE, no NVLink), GPU2 and GPU3 for one" in told["ranks_cross_pcie"]
    facts_told = environment(answer)
    assert facts_told["links"] == (
        "NV4 between 1 pair of GPUs, PIX between 1 pair of GPUs, PHB between 1 pair of GPUs,"
        " NODE between 1 pair of GPUs, SYS between 2 pairs of GPUs"
    )
    assert facts_told["cpu_affinity"] == "GPU 0-1: cores 0-7; GPU 2: cores 8-15"


@pytest.mark.parametrize(
    ("devices", "codes", "words"),
    [
        ((0, 1), set(), ""),
        ((1, 3), set(), ""),
        ((0, 2), {"ranks_cross_numa"}, "the GPUs in use (0, 2): 1 of 1 pairs"),
        ((0, 3), {"ranks_cross_pcie"}, "1 of 1 pairs"),
        ((0, 0), {"ranks_cross_numa", "ranks_cross_pcie"}, "do not tell which are in use"),
        ((0, 7), {"ranks_cross_numa", "ranks_cross_pcie"}, "do not tell which are in use"),
        ((0,), set(), ""),
        ((), {"ranks_cross_numa", "ranks_cross_pcie"}, "no timeline tells which are in use"),
    ],
)
def test_only_the_devices_of_the_job_take_part(tmp_path, devices, codes, words):
    path = store_of(tmp_path / "s.duckdb", *(trained(device) for device in devices))
    store_of(path, matrix(Capture(), FOUR), source="nvidia_smi")
    told = findings(asked(path))
    assert set(told) == codes
    assert all(words in text for text in told.values())


def test_the_nearest_network_card_is_told_and_a_far_one_is_a_finding(tmp_path):
    near = store_of(tmp_path / "near.duckdb", matrix(Capture(), CARDS).place("NIC0", "name", "mlx5_0"))
    answer = asked(near)
    assert not answer.findings
    told = environment(answer)
    assert told["network_cards"] == "mlx5_0, NIC1, NIC2"
    assert told["nearest_network_card"] == "PIX: GPU 0-1 mlx5_0"
    only_far = {"GPU0": "X NV4 PHB", "GPU1": "NV4 X SYS", "mlx5_0": "PHB SYS X"}
    far = store_of(tmp_path / "far.duckdb", matrix(Capture(), only_far))
    text = findings(asked(far))["nic_far"]
    assert text.startswith("all 2 GPUs of the host (no timeline tells which are in use): 2 of 2 have no")
    assert "(PHB: GPU 0, SYS: GPU 1)" in text


def test_settings_of_nccl_that_take_something_away_are_told_for_jobs_that_communicate(tmp_path):
    known = facts(NCCL_P2P_DISABLE="1", NCCL_IB_DISABLE="0", NCCL_ALGO="Ring", NCCL_DEBUG="INFO", NCCL_P2P_LEVEL="loc")
    one = store_of(tmp_path / "one.duckdb", trained(), facts=known)
    assert not findings(asked(one))
    two = store_of(tmp_path / "two.duckdb", trained(0), trained(1), facts=known)
    texts = [each.text for each in asked(two).findings]
    assert [text.partition(":")[0] for text in texts] == ["NCCL_P2P_DISABLE=1", "NCCL_P2P_LEVEL=loc", "NCCL_ALGO=Ring"]


@pytest.mark.parametrize(("network", "told"), [("Socket", True), ("NET/Socket", True), ("IB", False), ("", False)])
def test_a_network_of_sockets_is_told(tmp_path, network, told):
    known = facts(network=network, NCCL_SOCKET_IFNAME="eth0", nccl_version="2.28.9+cuda13.0")
    path = store_of(tmp_path / "s.duckdb", trained(), source="nccl_tests", facts=known)
    answer = asked(path)
    assert ("nccl_socket" in findings(answer)) is told
    assert environment(answer).get("nccl_network", "") == network
    if told:
        assert "(NCCL_SOCKET_IFNAME=eth0)" in findings(answer)["nccl_socket"]


def test_two_versions_of_nccl_and_mig_are_told(tmp_path):
    store_of(tmp_path / "s.duckdb", trained(0), facts=facts(nccl_version="2.28.9"))
    store_of(tmp_path / "s.duckdb", trained(1), facts=facts(nccl_version="2.27.3+cuda12.9", mig_mode="Enabled"))
    told = findings(asked(tmp_path / "s.duckdb"))
    assert set(told) == {"nccl_version", "mig"}
    assert "2.27.3, 2.28.9" in told["nccl_version"]


def test_commands_in_findings_run_and_findings_are_in_both_languages(tmp_path):
    ranks = [
        trained(device).scheduled(0, 800, ran=True).scheduled(800, 1_000, "Running", ran=False) for device in (0, 2)
    ]
    ranks[0].process(200, "pt_data_worker").thread(200, 200, "pt_data_worker")
    ranks[0].scheduled(0, 900, "Running", ran=False, process=200, thread=200)
    ranks[0].scheduled(900, 1_000, ran=True, process=200, thread=200)
    known = facts(
        cores=1,
        network="Socket",
        nccl_transports="SHM (2)",
        NCCL_ALGO="Ring",
        mig_mode="Enabled",
        nccl_version="2.28.9",
    )
    path = store_of(tmp_path / "s.duckdb", *ranks, source="nsys", facts=known)
    far = FOUR | {"NIC0": "SYS SYS SYS SYS X"}
    links = {place: f"{row} SYS" if place != "NIC0" else row for place, row in far.items()}
    store_of(path, matrix(Capture(), links), source="nvidia_smi", facts=facts(nccl_version="2.27.3"))
    english, chinese = asked(path, workers=2), asked(path, workers=2, lang="zh")
    assert {each.code for each in english.findings} == HOST_CODES - {"ranks_cross_pcie"}
    assert [each.code for each in chinese.findings] == [each.code for each in english.findings]
    assert all(any("\u4e00" <= letter <= "\u9fff" for letter in each.text) for each in chinese.findings)
    for command in {each.text.rpartition("(`")[2].removesuffix("`)") for each in english.findings}:
        words = shlex.split(command)
        assert words[0] == "traceanalyzer"
        done = CliRunner().invoke(root, [*words[1:], "--quiet", "--top", "0"])
        assert (command, done.exit_code, "rows: none" in done.output) == (command, 0, False)


@pytest.mark.parametrize("given", [{"workers": -1}, {"cpus": 0}, {"workers": 10**9}])
def test_numbers_of_the_host_that_make_no_sense_are_refused(tmp_path, given):
    with pytest.raises(UsageError, match="give a number from"):
        asked(store_of(tmp_path / "s.duckdb", trained()), **given)


@pytest.mark.parametrize("values", [[], [3], [0, 1, 2, 3], [5, 0, 1, 7, 6]])
def test_numbers_are_written_in_few_words(values):
    text = numbers(values)
    spelled = [part.split("-") for part in text.split(", ") if part]
    assert [n for part in spelled for n in range(int(part[0]), int(part[-1]) + 1)] == sorted(values)
    assert all(int(before[-1]) + 1 < int(after[0]) for before, after in pairwise(spelled))


@pytest.mark.skipif(not TRUTH, reason=MISSING)
def test_a_loader_with_two_workers_has_cores_enough():
    with opened(TRACES / "dataloader_workers2" / "nsys.sqlite.gz") as traces:
        answer = traces.checkup()
    told = environment(answer)
    assert (told["loader_workers"], told["cpu_cores"]) == ("2", str(TRUTH["machine"]["cpu_cores"]))
    assert not HOST_CODES & set(findings(answer))


TOPOLOGIES = {
    "rtx4090x8_sys.txt": ({"ranks_cross_numa", "nic_far"}, "SYS between 28 pairs of GPUs"),
    "h200x8_nics_ansi.txt": (set(), "NV18 between 28 pairs of GPUs"),
    "h100x8_plain.txt": (set(), "NV18 between 28 pairs of GPUs"),
    "h100_mig_one.txt": (set(), None),
}


@pytest.mark.skipif(not PUBLIC.exists(), reason=MISSING)
@pytest.mark.skipif(all(each.name != "nvidia_smi" for each in SOURCES), reason="no reader of nvidia-smi")
@pytest.mark.parametrize("name", TOPOLOGIES)
def test_matrices_that_people_published(name):
    with opened(PUBLIC / "telemetry" / "topo" / name) as traces:
        answer = traces.checkup()
    codes, links = TOPOLOGIES[name]
    told = findings(answer)
    assert set(told) == codes
    assert environment(answer).get("links") == links
    if name.startswith("rtx"):
        assert told["ranks_cross_numa"].startswith(
            "all 8 GPUs of the host (no timeline tells which are in use): 28 of 28"
        )
        assert "(SYS: GPU 0-5, 7, PHB: GPU 6)" in told["nic_far"]
    if name.startswith("h200"):
        assert environment(answer)["nearest_network_card"].startswith(
            "PIX: GPU 0 mlx5_3; 1 mlx5_5; 2 mlx5_4; 3 mlx5_0/mlx5_1/mlx5_2; 4"
        )
