"""Pages as ncu prints them, written by hand, in any locale."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from tests.support.memory_sink import MemorySink
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.ncu_csv.reader import CsvReader

PLACE = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size")
LEADING = (*PLACE, "Device", "CC")
LONG = (*LEADING, "Section Name", "Metric Name", "Metric Unit", "Metric Value")
RULES = (*LONG, "Rule Name", "Rule Type", "Rule Description", "Estimated Speedup Type", "Estimated Speedup")
SOL = "GPU Speed Of Light Throughput"
LOCALES = {
    "C": ("", "."),
    "en_US": (",", "."),
    "en_IN": (",", "."),
    "de_DE": (".", ","),
    "fr_FR": ("\u202f", ","),
    "de_CH": ("'", "."),
    "pt_PT": ("", ","),
}


def line(cells: Sequence[object]) -> str:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="").writerow([str(c) for c in cells])
    return out.getvalue()


def launch(id_: int = 0, kernel: str = "gemm(float *, int)", pid: int = 7, grid: str = "(64, 4, 1)") -> list[object]:
    return [id_, pid, "python3", "127.0.0.1", kernel, 1, 7, "(128, 1, 1)", grid, 0, "9.0"]


def metric(name: str, unit: str, value: str, section: str = SOL, **who: object) -> str:
    """A metric row of a page with rules: it ends after the value with one empty field."""
    return line([*launch(**who), section, name, unit, value, ""])


def rule(name: str, kind: str, text: str, **who: object) -> str:
    return line([*launch(**who), "SpeedOfLight", "", "", "", name, kind, text, "", ""])


def page(*rows: str, header: Sequence[str] = RULES) -> str:
    return "\n".join([line(header), *rows, ""])


def wide(metrics: Sequence[str], units: Sequence[str] | None, *launches: tuple[list[object], Sequence[str]]) -> str:
    rows = [] if units is None else [line([""] * len(LEADING) + list(units))]
    rows += [line([*who, *values]) for who, values in launches]
    return page(*rows, header=(*LEADING, *metrics))


def printed(value: int, decimals: int, locale: str) -> str:
    """`value` / 10^decimals as a process of a locale prints it."""
    group, mark = LOCALES[locale]
    digits = str(abs(value)).rjust(decimals + 1, "0")
    whole, fraction = (digits[:-decimals], digits[-decimals:]) if decimals else (digits, "")
    head, groups = whole, []
    size = 3
    while group and len(head) > size:
        head, part = head[:-size], head[-size:]
        groups.insert(0, part)
        size = 2 if locale == "en_IN" else 3
    return ("-" if value < 0 else "") + group.join([head, *groups]) + (mark + fraction if decimals else "")


def read_file(path: Path) -> MemorySink:
    sink = MemorySink()
    CsvReader(TraceFile(path), sink).read()
    return sink


def read_text(folder: Path, text: str | bytes, name: str = "page.csv") -> MemorySink:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_file(path)
