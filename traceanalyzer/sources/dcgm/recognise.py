"""Which form of DCGM's output a file is, by its first bytes."""

import re
from enum import Enum

from traceanalyzer.sources.dcgm.field_dump import COLUMNS
from traceanalyzer.sources.files import TraceFile

_METRIC = re.compile(
    rb"(?:^|\n)[ \t]*(?:# (?:HELP|TYPE) )?(?:DCGM_(?:FI|EXP)_[A-Z0-9_]+|dcgm_[a-z0-9_]+|nvidia_smi_[a-z0-9_]+)[ \t{]"
)
_COUNTERS = re.compile(rb"(?:^|\n)#?[ \t]*DCGM_(?:FI|EXP)_[A-Z0-9_]+,[ \t]*(?:gauge|counter|label|histogram)[ \t]*,")
_DMON = re.compile(rb"(?:^|\n)[ \t]*#[ \t]*Entity[ \t]+[A-Z0-9]{2}")
_ANSWER = re.compile(
    rb'\{\s*"(?:status"\s*:\s*"(?:success|error)"|resultType"\s*:\s*"(?:matrix|vector|scalar|string|streams)")'
)


class Form(Enum):
    """Forms of output that are read."""

    EXPOSITION = "exposition"
    API = "prometheus_api"
    DMON = "dcgmi_dmon"
    FIELD_DUMP = "field_dump"


def form_of(file: TraceFile) -> Form | None:
    """The form of a file; None where it is none of DCGM's."""
    head = _plain(file.head)
    if b"\0" in head[:512] or _COUNTERS.search(head):
        return None
    if _ANSWER.match(head):
        return Form.API
    first = head.partition(b"\n")[0].strip().lower().decode("utf-8", "replace")
    if set(COLUMNS) <= {cell.strip() for cell in first.split(",")}:
        return Form.FIELD_DUMP
    if _DMON.search(head):
        return Form.DMON
    return Form.EXPOSITION if _METRIC.search(head) else None


def why_not(file: TraceFile) -> str | None:
    """Says of the exporter's configuration that it is no output; None for any other file."""
    if not _COUNTERS.search(_plain(file.head)):
        return None
    return (
        "the configuration of dcgm-exporter, which names the fields it exports, and no output of it; scrape its"
        " /metrics instead (traceanalyzer howto dcgm)"
    )


def _plain(head: bytes) -> bytes:
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        head = head.decode("utf-16", "replace").encode("utf-8", "replace")
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()
