"""Whether a file is a training log."""

import csv

from traceanalyzer.sources.files import HEAD_BYTES, TraceFile
from traceanalyzer.sources.telemetry import is_missing, number
from traceanalyzer.sources.training_log.columns import Role
from traceanalyzer.sources.training_log.lines import STEP_LINE
from traceanalyzer.sources.training_log.table import header_of

_FARTHEST = 8 << 20
"""Source code, arguments and start-up may stand before the first step, but no more than this."""
_OVERLAP = 512
_LONGEST_HEADER = 1 << 12
_NO_LOGS = (b"{", b"[{", b"<", b"SQLite", b"PK", b"\x89")


def is_table(file: TraceFile) -> bool:
    """Whether the first line names columns of a training log, and the second holds numbers under them."""
    head = _text(file.head)
    lines = [line for line in head[: 2 * _LONGEST_HEADER].split("\n") if line.strip()]
    if len(lines) < 2 or len(lines[0]) > _LONGEST_HEADER or "\0" in lines[0]:
        return False
    try:
        header = header_of(lines[0])
        cells = [] if header is None else next(csv.reader([lines[1]], delimiter=header.delimiter), [])
    except csv.Error:
        return False
    if header is None:
        return False
    told = [cell.strip() for column, cell in zip(header.columns, cells, strict=False) if column.role is not Role.TIME]
    numeric = [number(cell.replace(",", ".")) is not None or is_missing(cell) for cell in told]
    return len(cells) <= len(header.columns) and (any(numeric) or not told)


def is_log(file: TraceFile) -> bool:
    """Whether a line tells of a step as known programs print it, within the first 8 MiB."""
    head = file.head
    if b"\0" in head[:512] or head.lstrip().startswith(_NO_LOGS):
        return False
    if STEP_LINE.search(head):
        return True
    if len(head) < HEAD_BYTES:
        return False
    rest, seen = b"", 0
    for block in TraceFile(file.path).blocks():
        if STEP_LINE.search(rest + block):
            return True
        rest, seen = block[-_OVERLAP:], seen + len(block)
        if seen > _FARTHEST:
            break
    return False


def _text(head: bytes) -> str:
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return head.decode("utf-16", "replace")
    return head.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")
