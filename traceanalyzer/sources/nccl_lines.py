"""What NCCL's own log lines (NCCL_DEBUG=INFO) and headers of nccl-tests tell: versions, network, connections, settings.

Facts go to `facts.metadata["environment"]`: `nccl_version`, `network` (IB, Socket, or a plugin's name),
`nccl_transports` (how ranks reach each other, with the number of connections: `P2P (24), SHM (2), NET/IB (4)`),
`nccl_p2p` (disabled, where NCCL says so), `nccl_nvls`, `nccl_channels` (of collectives), `nccl_ranks` (of the largest
communicator), and variables. Source of the wording: NVIDIA/nccl, src/init.cc, src/graph/paths.cc, src/transport/*.cc.
"""

import re
from collections import Counter
from collections.abc import Iterable

from traceanalyzer.schema.sink import Sink

_VERSION = re.compile(r"NCCL (?:INFO )?version[ :]+v?(\d+\.\d+(?:\.\d+)*(?:\+cuda[\d.]+)?)", re.I)
_NETWORK = re.compile(r"NCCL INFO (?:\S+ ?: ?)?Using network (\S+)")
_PLUGIN = re.compile(r"NCCL INFO (NET/\w+) ?: Using \[")
_SETTING = re.compile(r"NCCL INFO (NCCL_[A-Z0-9_]+) set (?:by environment )?to (\S+?)\.?$")
_CONNECTION = re.compile(
    r"NCCL INFO Channel \d+(?:/\d+)? ?: ?\S+ -> \S+ (?:\[\w+\] )?via (P2P|SHM|NET/[^/\s]+|COLLNET/[^/\s]+)"
)
_NO_P2P = re.compile(r"NCCL (?:INFO|WARN) P2P is disabled between ")
_NVLS = re.compile(r"NCCL INFO NVLS multicast support is (not available|available)")
_CHANNELS = re.compile(r"NCCL INFO (\d{1,4}) coll channels,(?:.*?(\d{1,4}) nvls channels,)?")
_RANKS = re.compile(r"NCCL INFO .*?\bnranks (\d{1,7})\b")
_HEADER = re.compile(r"# nccl-tests version (\S+) nccl-headers=(\d+) nccl-library=(\d+)")
_TORCH_HEADER = re.compile(r"\(NCCL (\d+\.\d+\.\d+)\)")
_KEPT = re.compile(r"(?:NCCL|CUDA|PYTORCH|TORCH)_[A-Z0-9_]+|OMP_NUM_THREADS")
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|ADDR|HOST|URL|ID$")
_PLAIN_VALUE = re.compile(r"[A-Za-z0-9_.,:^=+-]{1,64}")
_MOST_TRANSPORTS = 8
_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+|[0-9a-fA-F]{24,}")


class Environment:
    """Collects what is told; `finish` puts it into `facts.metadata["environment"]`."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._found: dict[str, str] = {}
        self._connections: Counter[str] = Counter()
        self._ranks = 0

    def line(self, line: str) -> None:
        """Take what a line tells, if anything."""
        if "NCCL" not in line and "nccl" not in line:
            return
        if "NCCL INFO Channel" in line:
            if connection := _CONNECTION.search(line):
                self._connections[connection[1]] += 1
        elif header := _HEADER.search(line):
            self._sink.facts.tool_version = header[1]
            self.version_code(int(header[3]))
        elif version := _VERSION.search(line) or _TORCH_HEADER.search(line):
            self._found.setdefault("nccl_version", version[1])
        elif network := _NETWORK.search(line) or _PLUGIN.search(line):
            self._found.setdefault("network", network[1])
        elif setting := _SETTING.search(line):
            self.variables([f"{setting[1]}={setting[2]}"])
        else:
            self._of_devices(line)

    def _of_devices(self, line: str) -> None:
        """How the GPUs of a host work together."""
        if _NO_P2P.search(line):
            self._found["nccl_p2p"] = "disabled"
        elif nvls := _NVLS.search(line):
            self._found.setdefault("nccl_nvls", nvls[1])
        elif channels := _CHANNELS.search(line):
            nvls_channels = f", {channels[2]} of NVLS" if channels[2] and int(channels[2]) else ""
            self._found.setdefault("nccl_channels", f"{channels[1]} of collectives{nvls_channels}")
        elif ranks := _RANKS.search(line):
            self._ranks = max(self._ranks, int(ranks[1]))

    def version_code(self, code: int) -> None:
        """NCCL's version as a number: 22809 is 2.28.9; before 2.9 it had one digit for the minor version."""
        if 10_000 <= code < 10_000_000:
            self._found["nccl_version"] = f"{code // 10_000}.{code // 100 % 100}.{code % 100}"
        elif 1_000 <= code < 10_000:
            self._found["nccl_version"] = f"{code // 1_000}.{code // 100 % 10}.{code % 100}"

    def variables(self, texts: Iterable[object]) -> None:
        """Keep the variables, given as `NAME=value`, that say how NCCL was set; the others are nobody's business."""
        for text in texts:
            name, mark, value = text.partition("=") if isinstance(text, str) else ("", "", "")
            plain = _PLAIN_VALUE.fullmatch(value) and not _ADDRESS.search(value)
            allowed = _KEPT.fullmatch(name) and plain and not _SECRET.search(name)
            if mark and name and (allowed or self._sink.keep_environment):
                self._found[name] = value

    def finish(self) -> bool:
        """Write what was found, beside what the source found itself; false where there is nothing."""
        if self._connections:
            told = sorted(self._connections.items(), key=lambda pair: (not pair[0].startswith("P2P"), pair[0]))
            self._found["nccl_transports"] = ", ".join(f"{name} ({count:,})" for name, count in told[:_MOST_TRANSPORTS])
        if self._ranks:
            self._found["nccl_ranks"] = str(self._ranks)
        if self._found:
            metadata = self._sink.facts.metadata
            before = metadata.get("environment")
            own = before if isinstance(before, dict) else {}
            metadata["environment"] = own | dict(sorted(self._found.items()))
        return bool(self._found)
