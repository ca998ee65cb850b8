"""Answers in the form of the contract, with names that try to break out of every format."""

from traceanalyzer.passes.answer import Answer, Finding, Frame, TableSpec
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.units import Unit

HOSTILE = (
    "=cmd|' /C calc'!A0",
    "\x1b[31mred\x1b[0m",
    "abc\u202egnp.exe",
    "| cell | `code` <img src=x onerror=alert(1)> ![x](http://example.com/x)",
    "two\nlines\r\n",
    "\t=1+1",
    "lone \ud800 surrogate",
    "核函数 naïve",
    "c1 \x9b31m",
)
BIG = 2**63 - 1


def _int(name, unit=Unit.NONE):
    return Column(name, Type.INT64, f"The {name}.", unit)


def _text(name):
    return Column(name, Type.TEXT, f"The {name}.")


DEVICES = TableSpec(
    "devices",
    "Devices and their time.",
    (
        _text("run"),
        _int("capture"),
        _int("rank"),
        _int("device"),
        _int("start_ns", Unit.NS),
        _int("end_ns", Unit.NS),
        _int("span_ns", Unit.NS),
        _int("busy_ns", Unit.NS),
        _int("idle_ns", Unit.NS),
        _int("copy_ns", Unit.NS),
        _int("n_ops", Unit.COUNT),
    ),
    cut=False,
)
CAUSES = TableSpec(
    "causes", "Idle by cause.", (_int("rank"), _text("cause"), _text("reason"), _int("idle_ns", Unit.NS)), cut=False
)
STACKS = TableSpec(
    "stacks",
    "Idle by stack.",
    (
        _text("cause"),
        _text("stack"),
        _text("blame"),
        _int("idle_ns", Unit.NS),
        Column("share", Type.FLOAT64, "Share.", Unit.SHARE),
    ),
)
ROWS = TableSpec("rows", "Rows of the query.", (_text("name"), _int("n")))
FILES = TableSpec(
    "files", "Files that were read.", (_text("path"), _text("source"), _text("status"), _int("rank")), cut=False
)


def gaps():
    """Two devices, and a stack for every hostile name."""
    stacks = [
        ["python", ["main (train.py:3)", name, "sleep"], name, 1000 * (100 - i), 0.5] for i, name in enumerate(HOSTILE)
    ]
    return Answer(
        "gaps",
        {
            "devices": Frame.of_rows(
                DEVICES,
                [
                    ["job", 0, 0, 0, 5, BIG, BIG - 5, BIG - 12_345_683, 12_345_678, 0, 1234],
                    ["job", 0, 1, 1, 5, 1005, 1000, 900, 100, 0, 7],
                ],
            ),
            "causes": Frame.of_rows(CAUSES, [[0, "python", None, 12_345_678], [1, "sync", None, 100]]),
            "stacks": Frame.of_rows(STACKS, stacks),
        },
        findings=[Finding("drained", "The queue was empty \x1b[2J.", rank=0, cost_ns=5)],
        warnings=["a name\nwith \x1b[31m colour"],
        default_table="stacks",
        notes=["run job, whole window, lane device"],
    )


def rows():
    """Many rows, not-a-number and all."""
    spec = TableSpec("rows", "Rows.", (_text("name"), _int("n"), Column("x", Type.FLOAT64, "X.")))
    return Answer("sql", {"rows": Frame.of_rows(spec, [[f"row {i}", i, float("nan")] for i in range(50)])})


def files():
    """One file."""
    return Answer("ingest", {"files": Frame.of_rows(FILES, [["a.json", "torch", "ingested", 0]])}, warnings=["odd"])


def plain(command, *tables):
    """A small answer for commands whose content does not matter."""
    spec = {table: TableSpec(table, "Rows.", (_int("rank"),)) for table in tables or (command,)}
    return Answer(command, {table: Frame.of_rows(spec[table], [[0]]) for table in spec})


ANSWERS = {
    "gaps": gaps,
    "sql": rows,
    "ingest": files,
    "info": lambda: plain("info", "captures", "devices", "answers", "quality"),
    "ledger": lambda: plain("ledger"),
    "steps": lambda: plain("steps"),
    "ranges": lambda: plain("ranges"),
    "kernels": lambda: plain("kernels", "kernels", "operations"),
    "streams": lambda: plain("streams", "streams", "overlap", "concurrency"),
    "export": lambda: plain("export", "files"),
    "export_timeline": lambda: plain("export", "files"),
    "launches": lambda: plain("launches", "launches", "queues", "depth"),
    "throughput": lambda: plain("throughput", "kernels", "rollup"),
    "collectives": lambda: plain("collectives", "collectives", "clocks", "bandwidth", "links"),
    "imbalance": lambda: plain("imbalance", "ranks", "stragglers", "efficiency"),
    "scaling": lambda: plain("scaling", "scaling", "lost"),
}
