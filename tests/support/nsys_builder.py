"""Tiny nsys exports for tests: tables given as rows, columns as far as the rows name them."""

import sqlite3
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]
MACHINE = 1


def gpid(pid: int, machine: int = MACHINE) -> int:
    """globalPid of a process."""
    return machine << 48 | pid << 24


def gtid(pid: int, tid: int, machine: int = MACHINE) -> int:
    """globalTid of a thread."""
    return gpid(pid, machine) | tid


def build(path: Path, tables: Mapping[str, Sequence[Row]], strings: Mapping[int, str] | None = None) -> Path:
    """Write an export. A table's columns are all that its rows name; a meta table is added if there is none."""
    path.unlink(missing_ok=True)
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
    db.executemany("INSERT INTO StringIds VALUES (?, ?)", (strings or {}).items())
    tables = {"META_DATA_EXPORT": [{"name": "EXPORT_SCHEMA_VERSION", "value": "3.20.3"}], **tables}
    for table, rows in tables.items():
        columns = list(dict.fromkeys(name for row in rows for name in row))
        kinds = {name: _kind(row[name]) for row in rows for name in row if row[name] is not None}
        declared = ", ".join(f'"{name}" {kinds.get(name, "INTEGER")}' for name in columns)
        db.execute(f'CREATE TABLE "{table}" ({declared})')
        marks = ", ".join("?" * len(columns))
        db.executemany(f'INSERT INTO "{table}" VALUES ({marks})', [[row.get(c) for c in columns] for row in rows])
    db.commit()
    db.close()
    return path


def _kind(value: object) -> str:
    return "INTEGER" if isinstance(value, int) else "REAL" if isinstance(value, float) else "TEXT"


def kernel(
    start: int | None, end: int | None, *, pid: int = 10, device: int = 0, correlation: int | None = 1, **more: Any
) -> Row:
    """A row of CUPTI_ACTIVITY_KIND_KERNEL with the columns that all versions have."""
    return {
        "start": start,
        "end": end,
        "deviceId": device,
        "contextId": 1,
        "streamId": 7,
        "correlationId": correlation,
        "globalPid": gpid(pid),
        "demangledName": 1,
        "shortName": 2,
        **more,
    }


def memcpy(
    start: int, end: int, kind: int, *, pid: int = 10, correlation: int = 1, size: int = 4096, **more: Any
) -> Row:
    """A row of CUPTI_ACTIVITY_KIND_MEMCPY."""
    where = {"deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": correlation, "globalPid": gpid(pid)}
    return {"start": start, "end": end, **where, "bytes": size, "copyKind": kind, **more}


def call(
    start: int, end: int, name: int, *, pid: int = 10, tid: int = 11, correlation: int | None = 1, **more: Any
) -> Row:
    """A row of CUPTI_ACTIVITY_KIND_RUNTIME."""
    who = {"eventClass": 0, "globalTid": gtid(pid, tid), "correlationId": correlation, "nameId": name}
    return {"start": start, "end": end, **who, "returnValue": 0, **more}


def nvtx(start: int, end: int | None, kind: int = 59, *, pid: int = 10, tid: int = 11, **more: Any) -> Row:
    """A row of NVTX_EVENTS."""
    return {"start": start, "end": end, "eventType": kind, "globalTid": gtid(pid, tid), "domainId": 0, **more}


def payload(domain: int, schema: int, data: bytes) -> bytes:
    """A binary payload of an NVTX event."""
    return struct.pack("<IIIIQQ", domain, 0, schema, 0, len(data), 32) + data


def python_frames(*frames: tuple[int, int, int]) -> bytes:
    """Data of the payload of a Python sample: (function id, file id, line), innermost first."""
    return struct.pack("<QII", 1, 1, len(frames)) + b"".join(struct.pack("<QQI4s", *f, b"junk") for f in frames)
