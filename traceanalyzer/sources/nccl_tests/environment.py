"""What output of nccl-tests and NCCL's own log lines tell of the software: versions, network, settings."""

import re
from collections.abc import Iterable

from traceanalyzer.schema.sink import Sink

_VERSION = re.compile(r"NCCL (?:INFO )?version[ :]+v?(\d+\.\d+(?:\.\d+)*(?:\+cuda[\d.]+)?)", re.I)
_NETWORK = re.compile(r"NCCL INFO (?:\S+ ?: ?)?Using network (\S+)")
_PLUGIN = re.compile(r"NCCL INFO (NET/\w+) ?: Using \[")
_SETTING = re.compile(r"NCCL INFO (NCCL_[A-Z0-9_]+) set (?:by environment )?to (\S+?)\.?$")
_HEADER = re.compile(r"# nccl-tests version (\S+) nccl-headers=(\d+) nccl-library=(\d+)")
_TORCH_HEADER = re.compile(r"\(NCCL (\d+\.\d+\.\d+)\)")
_KEPT = re.compile(r"(?:NCCL|CUDA|PYTORCH|TORCH)_[A-Z0-9_]+|OMP_NUM_THREADS")
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|ADDR|HOST|URL|ID$")
_PLAIN_VALUE = re.compile(r"[A-Za-z0-9_.,:^=+-]{1,64}")
_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+|[0-9a-fA-F]{24,}")


class Environment:
    """Collects what is told; `finish` puts it into `facts.metadata["environment"]`."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._found: dict[str, str] = {}

    def line(self, line: str) -> None:
        """Take what a line tells, if anything."""
        if "NCCL" not in line and "nccl" not in line:
            return
        if header := _HEADER.search(line):
            self._sink.facts.tool_version = header[1]
            self.version_code(int(header[3]))
        elif version := _VERSION.search(line) or _TORCH_HEADER.search(line):
            self._found.setdefault("nccl_version", version[1])
        elif network := _NETWORK.search(line) or _PLUGIN.search(line):
            self._found.setdefault("network", network[1])
        elif setting := _SETTING.search(line):
            self.variables([f"{setting[1]}={setting[2]}"])

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

    def finish(self) -> None:
        """Write what was found."""
        if self._found:
            self._sink.facts.metadata["environment"] = dict(sorted(self._found.items()))
