"""Files of throughputs: CSV with the columns `ranks` and `throughput`, plain or packed.

They are no traces and are not ingested: the question about scaling reads them itself.
"""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from traceanalyzer.errors import SourceError
from traceanalyzer.sources.files import TraceFile

COLUMNS = ("ranks", "throughput")
"""Columns that the header has to name; others are left alone."""

_MOST_BYTES = 1 << 20
_BLOCK = 1 << 16
_SHOWN = 40
_RANKS = re.compile(r"0*[1-9][0-9]{0,17}")
_DECIMAL = re.compile(r"\+?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)
# Far from the ends of what a float holds, so that quotients of two of them are numbers.
_LEAST, _MOST = 1e-100, 1e100
_HOW = "write the header ranks,throughput and beneath it one row for each number of ranks"


def holds_throughputs(path: Path) -> bool:
    """Whether a file is meant as one of throughputs: it is named like CSV, or its first line is such a header."""
    if path.is_dir():
        return False
    name = path.name.lower().removesuffix(".gz").removesuffix(".zip")
    if name.endswith(".csv"):
        return True
    try:
        head = TraceFile(path).head.decode("utf-8-sig", "replace")
        _, first = next(_lines(path, head), (0, []))
    except SourceError:
        return False
    return set(COLUMNS) <= set(_names(first))


def read_throughputs(path: Path) -> tuple[dict[int, float], list[str]]:
    """Throughput by number of ranks, and what was odd about the file but lost nothing, in sentences.

    Raises `SourceError` where anything in it is damaged or unclear: a wrong figure would be worse than none.
    """
    text, remarks = _text(path)
    lines = _lines(path, text)
    _, header = next(lines, (0, []))
    if not header:
        raise SourceError(path, "is empty", _HOW)
    names = _names(header)
    if missing := [name for name in COLUMNS if name not in names]:
        raise SourceError(path, f"the first line names no column {' and no column '.join(missing)}", _HOW)
    if twice := [name for name in COLUMNS if names.count(name) > 1]:
        raise SourceError(path, f"the first line names the column {twice[0]} more than once", _HOW)
    found: dict[int, float] = {}
    seen: dict[int, int] = {}
    for number, cells in lines:
        if any(cells[len(names) :]):
            why = f"line {number} has {len(cells)} values under {len(names)} columns"
            raise SourceError(path, why, "write numbers without separators of thousands, or quote them")
        given = dict(zip(names, cells, strict=False))
        ranks = _ranks(path, number, given.get("ranks", ""))
        if ranks in seen:
            why = f"line {number} tells of {ranks} ranks again, as line {seen[ranks]} does"
            raise SourceError(path, why, "keep one row for each number of ranks")
        seen[ranks] = number
        found[ranks] = _throughput(path, number, given.get("throughput", ""))
    if not found:
        raise SourceError(path, "has no row beneath its header", _HOW)
    return found, remarks


def _text(path: Path) -> tuple[str, list[str]]:
    """The whole text, and remarks. Only small files are read: others are something else."""
    file = TraceFile(path)
    content = bytearray()
    for block in file.blocks(_BLOCK):
        content += block
        if len(content) > _MOST_BYTES:
            raise SourceError(path, "is too long for a file of throughputs", _HOW)
    if file.damage:
        raise SourceError(path, file.damage, "give the file again when it is whole")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = content.count(b"\n", 0, error.start) + 1
        raise SourceError(path, f"line {number} is not text in UTF-8", "save it as CSV in UTF-8") from error
    return text, [f"{path}: {file.remark}"] if file.remark else []


def _lines(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """Number and values of each line that is not blank."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, skipinitialspace=True)
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if any(cells):
                yield reader.line_num, cells
    except csv.Error as error:
        raise SourceError(path, f"line {reader.line_num} is no CSV ({error})", "save it as plain CSV") from error


def _names(header: Sequence[str]) -> list[str]:
    return [name.lower() for name in header]


def _ranks(path: Path, number: int, text: str) -> int:
    if not _RANKS.fullmatch(text):
        why = f"line {number}: ranks {_said(text)} is no whole number of 1 or more"
        raise SourceError(path, why, "give the number of ranks in digits")
    return int(text)


def _throughput(path: Path, number: int, text: str) -> float:
    value = float(text) if _DECIMAL.fullmatch(text) else 0.0
    if not _LEAST <= value <= _MOST:
        why = f"line {number}: throughput {_said(text)} is no positive number"
        raise SourceError(path, why, "give what all ranks together do in a second, such as 1234.5")
    return value


def _said(text: str) -> str:
    """What stands there, short and without line ends."""
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...") if text else "(nothing)"
