"""Answers for programs: every column, exact numbers, whole names."""

import csv
import io
import json
import math
import re
from typing import Any

from traceanalyzer.passes.answer import Answer, Finding
from traceanalyzer.version import __version__
from traceanalyzer.views.rows import cut

_RISKY = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]")
_FORMULA = ("=", "+", "-", "@")


def as_json(answer: Answer, top: int) -> str:
    """The answer as one JSON object.

    Numbers that JSON cannot hold (NaN, infinities) are null. Characters that a terminal may act upon, and lone
    surrogates, are written as escapes: the same text for a parser.
    """
    whole = {
        "traceanalyzer": __version__,
        "command": answer.command,
        "tables": {name: [_plain(row) for row in cut(frame, top).rows()] for name, frame in answer.tables.items()},
        "findings": [_finding(finding) for finding in answer.findings],
        "warnings": list(answer.warnings),
    }
    text = json.dumps(whole, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=str)
    return _RISKY.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


def _finding(finding: Finding) -> dict[str, Any]:
    return {"code": finding.code, "text": finding.text, "rank": finding.rank, "cost_ns": finding.cost_ns}


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def as_csv(answer: Answer, top: int, table: str | None) -> str:
    """One table as CSV with a header line. Lists are JSON; text that a spreadsheet would run gets an apostrophe."""
    frame = cut(answer.table(table), top)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([_csv_cell(name) for name in frame.columns])
    for row in zip(*frame.columns.values(), strict=True):
        writer.writerow([_csv_cell(value) for value in row])
    return out.getvalue()


def _csv_cell(value: Any) -> Any:
    if isinstance(value, (list, tuple, dict)):
        return json.dumps(_plain(value), ensure_ascii=False, default=str)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and (value.lstrip().startswith(_FORMULA) or value[:1] in ("\t", "\r", "\n")):
        return "'" + value
    return value
