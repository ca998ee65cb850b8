"""Whether a file is output of nvidia-smi, by its first bytes, and why some of that cannot be read."""

import codecs
import re

from traceanalyzer.sources.files import HEAD_BYTES, TraceFile
from traceanalyzer.sources.nvidia_smi import listing, monitor, overview, report_text, superbench, topology
from traceanalyzer.sources.nvidia_smi.headless import is_headless_monitor
from traceanalyzer.sources.nvidia_smi.host import LONGEST_LINE
from traceanalyzer.sources.nvidia_smi.query import is_nameless
from traceanalyzer.sources.nvidia_smi.query_columns import is_header

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_COMMAND = re.compile(r"#? *\S{0,80}[$>#] *(?:\S*/)?nvidia-smi(?:\.exe)?(?: .*)?")
_XML = re.compile(r"\s*(?:<\?xml[^>]*\?>\s*)?(?:<!DOCTYPE nvidia_smi_log\b|<nvidia_smi_log>)")
_TIME_FIRST = re.compile(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d+|\d{8}|\d\d:\d\d:\d\d")
_BARE_CELL = re.compile(r"-|\[?N/A\]?|\d[\d.]*")
_FAILED = re.compile(r"NVIDIA-SMI has failed because|No devices were found|Failed to initialize NVML")
_MOST_LINES = 400


def looks_like_nvidia_smi(file: TraceFile) -> bool:
    """Whether the first line that says something is one that nvidia-smi prints, or its command stands before."""
    text = _text(file.head)
    if _XML.match(text):
        return True
    lines = _lines(text, len(file.head))
    if is_headless_monitor([line[:LONGEST_LINE] for line in lines]):
        return True
    for line in lines:
        if len(line) <= LONGEST_LINE and _COMMAND.fullmatch(line):
            return True
        if line.startswith("#") and not monitor.HEADER.match(line):
            continue
        if overview.DATE.fullmatch(line) or line.startswith("+-"):
            continue
        if not _begins(line):
            return _has_command(text)
        return True
    return False


def why_not(file: TraceFile) -> str | None:
    """Why output of nvidia-smi cannot be read, and what to do; None where it is none."""
    first = next(iter(_lines(_text(file.head), len(file.head))), "")
    cells = [cell.strip() for cell in first[:LONGEST_LINE].split(",")]
    if len(cells) > 2 and _TIME_FIRST.fullmatch(cells[0]) and _BARE_CELL.fullmatch(cells[-1]):
        return (
            "rows of nvidia-smi without names and units, so that nothing tells what they are; record without noheader"
        )
    if _FAILED.match(first):
        return "nvidia-smi found no GPU when this was recorded"
    return None


def _begins(line: str) -> bool:
    if len(line) > LONGEST_LINE:
        return bool(is_header(line) or superbench.START.match(line))
    return bool(
        monitor.HEADER.match(line)
        or is_header(line)
        or topology.header_of(line)
        or report_text.START.fullmatch(line)
        or overview.VERSIONS.fullmatch(line)
        or listing.GPU.fullmatch(line)
        or superbench.START.match(line)
        or is_nameless(line)
    )


def _has_command(text: str) -> bool:
    """Whether a file of many outputs, each below its command, begins so."""
    return any(
        line.startswith("#") and len(line) <= LONGEST_LINE and _COMMAND.fullmatch(line)
        for line in text.splitlines()[:_MOST_LINES]
    )


def _lines(text: str, size: int) -> list[str]:
    """The first lines that are not blank; the last one only where the head does not end within it."""
    lines = text.splitlines()[:_MOST_LINES]
    if size >= HEAD_BYTES and len(lines) > 1 and len(lines) < _MOST_LINES:
        lines.pop()
    return [line for line in lines if line.strip()]


def _text(head: bytes) -> str:
    if head[:2] in _UTF16:
        return head.decode("utf-16", "ignore")
    return head.removeprefix(codecs.BOM_UTF8).decode("latin-1")
