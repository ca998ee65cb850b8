"""The reference page of the results, made from their declarations: `python -m traceanalyzer.passes.reference`."""

import sys

from traceanalyzer.passes.results import RESULTS, Result

_INTRODUCTION = """\
# Results of the questions

Generated from the passes by `python -m traceanalyzer.passes.reference`; do not edit.

These are the tables that the questions answer with: of `--format json`, of `--table NAME`, of the Python API. In
`traceanalyzer sql` and `traceanalyzer export` they can be named like the [tables of the store](schema.md), and are
worked out where they are. Every one has the name `<question>_<table>`; where that is not the name of a stored table or
of another question's, the table's own name will do. There, lists are whole, and rows are those of the selection: the
newest run, unless `--run`, `--rank`, `--device`, `--steps` and so on say otherwise.
"""

_TYPES = {"BIGINT": "integer", "INTEGER": "integer", "DOUBLE": "float", "BOOLEAN": "boolean", "VARCHAR": "text"}


def results_reference() -> str:
    """The page, as Markdown."""
    names: dict[Result, list[str]] = {}
    for name, result in RESULTS.items():
        names.setdefault(result, []).append(name)
    return _INTRODUCTION + "".join("\n" + _section(result, mine) for result, mine in names.items())


def _section(result: Result, names: list[str]) -> str:
    lines = [f"## {' or '.join(f'`{name}`' for name in names)}", "", _text(result.spec.meaning), ""]
    lines += ["| column | type | unit | meaning |", "| --- | --- | --- | --- |"]
    lines += [
        f"| `{c.name}` | {_TYPES[c.type.public]} | {c.unit or ' '} | {_text(c.meaning)} |" for c in result.spec.columns
    ]
    return "\n".join(lines) + "\n"


def _text(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(results_reference())
