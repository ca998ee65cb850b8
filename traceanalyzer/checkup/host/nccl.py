"""How NCCL was set, as far as it takes something away: its network, variables, versions that differ.

Meanings of variables: NVIDIA, NCCL documentation, "Environment Variables".
"""

import re
from collections.abc import Iterator

from traceanalyzer.checkup.environment import Told, told_by_files
from traceanalyzer.checkup.job import Job
from traceanalyzer.passes.answer import Finding
from traceanalyzer.store.database import first_row

_OFF = frozenset({"0"})
_ON = frozenset({"1"})
_NEVER = frozenset({"0", "LOC"})
_SETTINGS: dict[str, frozenset[str] | None] = {
    "NCCL_P2P_DISABLE": _ON,
    "NCCL_P2P_LEVEL": _NEVER,
    "NCCL_SHM_DISABLE": _ON,
    "NCCL_IB_DISABLE": _ON,
    "NCCL_NET_GDR_LEVEL": _NEVER,
    "NCCL_NVLS_ENABLE": _OFF,
    "NCCL_ALGO": None,
    "NCCL_PROTO": None,
    "NCCL_MAX_NCHANNELS": None,
    "NCCL_MAX_CTAS": None,
}
"""Variables that take something away, with the values that do; None is every value."""
_INTERFACE = "NCCL_SOCKET_IFNAME"
NETWORK = "nccl_network"
TRANSPORTS, PEERS = "nccl_transports", "nccl_p2p"
"""How ranks reach each other by NCCL's own log, and what it says of P2P."""
_SHARED_MEMORY = re.compile(r"\bSHM \(([\d,]+)\)")


def nccl_findings(job: Job) -> Iterator[Finding]:
    """Findings `nccl_socket`, `nccl_no_p2p`, `nccl_setting` and `nccl_version`, for jobs that communicate."""
    told = told_by_files(job.scope)
    if not (any(each.fact == TRANSPORTS for each in told) or _communicates(job)):
        return
    command = job.command("checkup --table environment")
    values = {
        name: _values(told, name) for name in (NETWORK, TRANSPORTS, PEERS, "nccl_version", _INTERFACE, *_SETTINGS)
    }
    sockets = [value for value in values[NETWORK] if value.rpartition("/")[2].lower() == "socket"]
    if sockets:
        interface = ", ".join(values[_INTERFACE])
        by = job.messages.text("nccl_socket.interface", value=interface) if interface else ""
        yield Finding("nccl_socket", job.messages.text("nccl_socket.text", by=by, command=command))
    shared = next((found[0] for value in values[TRANSPORTS] if (found := _SHARED_MEMORY.search(value))), None)
    if shared is not None or values[PEERS]:
        key = "shared" if shared is not None else "disabled"
        text = job.messages.text(f"nccl_no_p2p.{key}", transports="; ".join(values[TRANSPORTS]), command=command)
        yield Finding("nccl_no_p2p", text)
    for name, harmful in _SETTINGS.items():
        for value in values[name]:
            if harmful is None or value.upper() in harmful:
                meaning = job.messages.text(f"nccl_setting.{name}")
                text = job.messages.text("nccl_setting.text", name=name, value=value, meaning=meaning, command=command)
                yield Finding("nccl_setting", text)
    versions = sorted({value.partition("+")[0] for value in values["nccl_version"]})
    if len(versions) > 1:
        text = job.messages.text("nccl_version.text", versions=", ".join(versions), command=command)
        yield Finding("nccl_version", text)


def _values(told: list[Told], fact: str) -> list[str]:
    return list(
        dict.fromkeys(str(each.value).strip() for each in told if each.fact == fact and str(each.value).strip())
    )


def _communicates(job: Job) -> bool:
    """Whether there are several ranks, or somebody measured how they communicate."""
    if len({(each.rank, each.device) for each in job.scope.devices}) > 1:
        return True
    row = first_row(
        job.scope.connection.execute(
            f"""SELECT count(*) FROM stored.captures WHERE capture IN {job.scope.numbers()}
                AND (world_size > 1 OR source IN ('nccl_tests', 'nccl_log'))"""
        )
    )
    return bool(row and row[0])
