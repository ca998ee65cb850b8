"""NCCL's own log: alone, in a training log, and what the check-up makes of it."""

import pytest

import traceanalyzer
from tests.support.reading import read_text
from traceanalyzer.errors import SourceError
from traceanalyzer.ingestion import ingest, recognise
from traceanalyzer.sources.files import TraceFile

LINES = """node1:71:71 [0] NCCL INFO Bootstrap : Using eth0:10.1.2.3<0>
NCCL version 2.21.5+cuda12.4
node1:71:80 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1.
node1:71:80 [0] NCCL INFO NCCL_NET_PLUGIN set by environment to /opt/secret/lib.so.
node1:71:80 [0] NCCL INFO NET/IB : No device found.
node1:71:80 [0] NCCL INFO NET/Socket : Using [0]eth0:10.1.2.3<0>
node1:71:80 [0] NCCL INFO Using network Socket
node1:71:80 [0] NCCL INFO NVLS multicast support is not available on dev 0
node1:71:80 [0] NCCL INFO Channel 00/02 :    0   1   2   3
node1:71:80 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct
node1:71:80 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via SHM/direct/direct
node1:71:80 [0] NCCL INFO Channel 00/0 : 3[1] -> 0[0] [receive] via NET/Socket/0
node1:71:80 [0] NCCL INFO 2 coll channels, 0 collnet channels, 0 nvls channels, 2 p2p channels, 2 p2p channels per peer
node1:71:80 [0] NCCL INFO comm 0x5581 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 18000 - Init COMPLETE
"""
FACTS = {
    "NCCL_P2P_DISABLE": "1",
    "nccl_channels": "2 of collectives",
    "nccl_nvls": "not available",
    "nccl_ranks": "4",
    "nccl_transports": "NET/Socket (1), SHM (2)",
    "nccl_version": "2.21.5+cuda12.4",
    "network": "NET/Socket",
}
TRAINED = "".join(f"step {n} | loss: 9.5 | dt: 338.0 ms\n" for n in range(3))


def test_a_log_of_nccl_alone_tells_the_environment(tmp_path):
    sink = read_text(tmp_path, LINES, source="nccl_log")
    assert sink.facts.metadata == {"environment": FACTS}
    assert sink.facts.host == "node1" and not sink.rows("metric_samples") and not sink.notes


def test_lines_of_nccl_in_a_training_log_are_kept_beside_its_own(tmp_path):
    head = "Running PyTorch 2.6.0 compiled for CUDA 12.4\n"
    sink = read_text(tmp_path, head + LINES + TRAINED, source="training_log")
    assert sink.facts.metadata == {"environment": FACTS | {"pytorch_version": "2.6.0", "cuda_version": "12.4"}}
    assert [row["value"] for row in sink.rows("metric_samples") if row["metric"] == "step_time"] == [0.338] * 3


@pytest.mark.parametrize(
    ("line", "fact", "value"),
    [
        ("Channel 00/24 : 0[0] -> 1[1] via P2P/CUMEM", "nccl_transports", "P2P (1)"),
        ("Channel 02 : 0[4000] -> 1[5000] via P2P/IPC/read", "nccl_transports", "P2P (1)"),
        ("Channel 02/0 : 1[1] -> 8[0] [send] via NET/IB/0/GDRDMA", "nccl_transports", "NET/IB (1)"),
        ("NVLS multicast support is available on dev 0 (NVLS_NCHANNELS 16)", "nccl_nvls", "available"),
        ("24 coll channels, 16 nvls channels, 32 p2p channels", "nccl_channels", "24 of collectives, 16 of NVLS"),
        ("P2P is disabled between connected GPUs 0 and 1.", "nccl_p2p", "disabled"),
    ],
)
def test_lines_of_other_versions(tmp_path, line, fact, value):
    sink = read_text(tmp_path, f"[1,0]<stdout>:host-a:12:99 [0] NCCL INFO {line}\n", source="nccl_log")
    assert sink.facts.metadata["environment"] == {fact: value}


def test_a_log_that_tells_nothing_is_refused_and_other_files_are_not_claimed(tmp_path):
    with pytest.raises(SourceError, match="neither version nor network"):
        read_text(tmp_path, "a:1:2 [0] NCCL INFO Bootstrap : Using eth0:10.1.2.3<0>\n")
    other = tmp_path / "other.txt"
    other.write_text("see NCCL INFO in the manual\n")
    assert recognise(TraceFile(other)) is None


def checked(tmp_path, text):
    log, store = tmp_path / "job.log", tmp_path / "s.duckdb"
    log.write_text(text)
    ingest([log], store)
    with traceanalyzer.open(store) as traces:
        return {finding.code: finding.text for finding in traces.checkup().findings}


@pytest.mark.parametrize("more", ["", TRAINED])
def test_the_check_up_tells_of_sockets_of_shared_memory_and_of_what_was_set(tmp_path, more):
    told = checked(tmp_path, LINES + more)
    assert {"nccl_socket", "nccl_no_p2p", "nccl_setting"} <= set(told)
    assert "through shared memory" in told["nccl_no_p2p"] and "SHM (2)" in told["nccl_no_p2p"]
    assert told["nccl_setting"].startswith("NCCL_P2P_DISABLE=1")


def test_gpus_that_copy_to_each_other_are_no_finding(tmp_path):
    lines = [line for line in LINES.splitlines(keepends=True) if "Socket" not in line and "P2P_DISABLE" not in line]
    assert not checked(tmp_path, "".join(lines).replace("SHM/direct/direct", "P2P/CUMEM"))
