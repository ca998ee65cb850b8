"""Whether a file is output of ncu, by its first bytes, and why some of ncu's output cannot be read."""

import codecs
import importlib.util
import re

from traceanalyzer.sources.files import HEAD_BYTES, TraceFile

REPORT_MAGIC = b"NVR\x00"
_TABLE = re.compile(
    rb'"ID","Process ID","Process Name"|(?:^|\n)ID,Process ID,Process Name'
    rb'|(?:^|\n)"Process ID","Process Name","Host Name"|(?:^|\n)Process ID,Process Name,Host Name'
    rb'|(?:^|\n)"Domain","Range:|(?:^|\n)"(?:Launch|Session) Attribute","Value"'
    rb'|(?:^|\n)"Kernel Name","[^\n]*\n"(?:Address|#)","'
)
_PROGRESS = re.compile(rb"(?:^|\n)==PROF== (?:Connected to|Disconnected from|Profiling|Report:|Target process)")
_TEXT_PAGE = re.compile(rb"(?:^|\n)\s*\[\d+\] [^\n]{1,200}@[^\n]{1,200}\r?\n|\n    Section: [^\n]+\r?\n    -{3}")
_ROW = re.compile(rb'\n"\d+","\d+","[^"\n]*","[^"\n]*","')
_NAMELESS = re.compile(rb'\A"?[a-z0-9]+__[\w.]+"?,"?[a-z0-9]+__')
_LONGEST_NEEDLE = 128
_AGAIN = "ncu --import REPORT --csv --page raw"
_NEEDS_PACKAGE = (
    "a report of ncu; reading it needs a package: pip install 'gpu-traceanalyzer[ncu-rep]',"
    " or print it: ncu --import FILE --csv --page raw"
)


def is_report(file: TraceFile) -> bool:
    """Whether a file is a report (.ncu-rep, .nsight-cuprof-report)."""
    return file.head.startswith(REPORT_MAGIC)


def can_read_reports() -> bool:
    """Whether the package that reads reports is installed."""
    return importlib.util.find_spec("ncu_report") is not None


def looks_like_ncu(file: TraceFile) -> bool:
    """Whether a file holds tables of ncu, or is a report that can be read here.

    The program's own output may stand before the first table. Where that fills the head, a line of ncu's progress in it
    says that a table may follow, and a plain file is looked at from its end.
    """
    if is_report(file):
        return can_read_reports()
    head = _utf8(file.head)
    if _TABLE.search(head):
        return True
    if len(file.head) < HEAD_BYTES or b"\x00" in head:
        return False
    return _further_on(file) if _PROGRESS.search(head) else _at_the_end(file)


def lacks_package(file: TraceFile) -> str | None:
    """What to do about a report where the package is missing; None for any other file."""
    if not is_report(file) or can_read_reports():
        return None
    return _NEEDS_PACKAGE


def why_not(file: TraceFile) -> str | None:
    """Why a file that is ncu's cannot be read, and what to do; None where it is not ncu's."""
    if is_report(file):
        return _NEEDS_PACKAGE
    head = _utf8(file.head)
    if _TEXT_PAGE.search(head):
        return f"a page of ncu for people; print it with --csv: {_AGAIN}"
    if _PROGRESS.search(head):
        return f"only the progress of ncu, without a table; print the report with --csv: {_AGAIN}"
    if _NAMELESS.match(head.removeprefix(codecs.BOM_UTF8)):
        return f"metrics of ncu without ID and kernel name; print the report whole: {_AGAIN}"
    return None


def _utf8(head: bytes) -> bytes:
    if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return head.decode("utf-16", "ignore").encode("utf-8", "ignore")
    return head.replace(b"\r\n", b"\n").removeprefix(codecs.BOM_UTF8)


def _further_on(file: TraceFile) -> bool:
    """Whether a table begins somewhere behind the head."""
    rest = b""
    for block in TraceFile(file.path).blocks():
        if _TABLE.search(rest + block):
            return True
        rest = block[-_LONGEST_NEEDLE:]
    return False


def _at_the_end(file: TraceFile) -> bool:
    """Whether the last bytes of a plain file are rows of a table of launches."""
    if file.compressed:
        return False
    with file.path.open("rb") as stream:
        stream.seek(-min(file.size, HEAD_BYTES), 2)
        return _ROW.search(stream.read()) is not None and _further_on(file)
