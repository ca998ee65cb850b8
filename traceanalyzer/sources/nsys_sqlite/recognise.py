"""Whether a file is one of nsys, by its first bytes and its name."""

from traceanalyzer.sources.files import TraceFile

SQLITE_MAGIC = b"SQLite format 3\x00"
REPORT_SUFFIXES = (".nsys-rep", ".qdrep")
_REPORT_MAGIC = b"NVIDIA Tegra Profiler Report"


def recognise(file: TraceFile) -> bool:
    """Whether the file is an SQLite database or a report of nsys; what is no export of nsys is refused when read."""
    return file.head.startswith(SQLITE_MAGIC) or is_report(file.stem, file.head)


def is_report(stem: str, head: bytes) -> bool:
    """Whether a file of this name and content is a report of nsys that was not exported."""
    return head.startswith(_REPORT_MAGIC) or (
        stem.lower().endswith(REPORT_SUFFIXES) and not head.startswith(SQLITE_MAGIC)
    )
