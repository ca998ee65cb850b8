"""Damage, and changes that damage nothing: each a function of a random generator and the content of a file.

A mutation is told to be `whole` where what it makes says the same as before: every total has to stay. `cut` says that
something is surely missing, so that an answer has to come with a warning.
"""

import gzip
import io
import json
import re
import sqlite3
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from traceanalyzer.sources.ncu_csv.container import extent_of

Change = Callable[[Random, bytes], bytes]

TOKENS = (
    b"NaN", b"-Infinity", b"1e999", b"-2147483648", b"9223372036854775807", b"-9223372036854775808", b"9" * 400,
    b"1e-400", b"null", b"true", b'"', b"\\", b"\\u0000", b"\\ud800", b"\x00", b"\xff\xfe", b"\xed\xa0\x80",
    b"[" * 3000, b'{"a":' * 3000, b"]", b"}", b"},{", b"]}", b"/*", b"\x1b[31m", b"\r\n", b'"traceEvents": [', b"-",
    b"0x10", b"{}", b'"' + b"x" * 10_000_000 + b'"', b"1" + b"0" * 5000,
)  # fmt: skip
NUMBERS = (
    0, -1, 1, 2**31 - 1, 2**31, -(2**31), 2**32, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), -(2**63) + 1, 2**63, 2**64,
    10**30,
)  # fmt: skip
VALUES = (
    None, True, "", "x", "7", "NaN", "stream 7", "1e999", [], {}, [[]], [1, 2, 3], {"a": {}}, 1.5, -0.0, 1e300,
    "\x1b[31m", "a\nb", "\ud800", "\x00", "'; DROP TABLE gpu_ops; --", "=1+1", "z" * 100_000, *NUMBERS,
)  # fmt: skip
_INT64 = tuple(n for n in NUMBERS if -(2**63) <= n < 2**63)


@dataclass(frozen=True, slots=True)
class Mutation:
    """A change of a file, and what has to hold of what it makes."""

    name: str
    change: Change
    whole: bool = False
    cut: bool = False


def _span(rng: Random, data: bytes) -> tuple[int, int]:
    low = rng.randrange(len(data))
    return low, min(len(data), low + 1 + int(rng.expovariate(1 / 200)))


def flip(rng: Random, data: bytes) -> bytes:
    """Some bits are other ones."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 3, 20))):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def noise(rng: Random, data: bytes) -> bytes:
    """A span is random bytes."""
    low, high = _span(rng, data)
    return data[:low] + rng.randbytes(high - low) + data[high:]


def cut(rng: Random, data: bytes) -> bytes:
    """The end is missing, for at least a tenth."""
    return data[: rng.randrange(1, max(2, len(data) * 9 // 10))]


def zeros(rng: Random, data: bytes) -> bytes:
    """The end is zero bytes, as a crash of the machine leaves it."""
    at = rng.randrange(len(data))
    return data[:at] + bytes(len(data) - at)


def delete(rng: Random, data: bytes) -> bytes:
    """A span is missing."""
    low, high = _span(rng, data)
    return data[:low] + data[high:]


def double(rng: Random, data: bytes) -> bytes:
    """A span stands twice."""
    low, high = _span(rng, data)
    return data[:high] + data[low:high] + data[high:]


def swap(rng: Random, data: bytes) -> bytes:
    """Two neighbouring blocks changed places."""
    a, b, c = sorted(rng.randrange(len(data)) for _ in range(3))
    return data[:a] + data[b:c] + data[a:b] + data[c:]


def insert(rng: Random, data: bytes) -> bytes:
    """A hostile token stands somewhere."""
    at = rng.randrange(len(data))
    return data[:at] + rng.choice(TOKENS) + data[at:]


def number(rng: Random, data: bytes) -> bytes:
    """Some numbers are hostile tokens."""
    found = list(re.finditer(rb"-?\d+(?:\.\d+)?", data))
    for match in sorted(rng.sample(found, min(len(found), rng.choice((1, 3, 30)))), key=lambda m: -m.start()):
        token = rng.choice(TOKENS) if rng.random() < 0.3 else str(rng.choice(NUMBERS)).encode()
        token = token if len(token) < 10_000 else b"1e999"
        data = data[: match.start()] + token + data[match.end() :]
    return data


# ---------------------------------------------------------------- JSON


def _document(data: bytes) -> tuple[Any, list[Any]]:
    document = json.loads(data.decode("utf-8", "replace"), strict=False)
    return document, document["traceEvents"] if isinstance(document, dict) else document


def _text(document: Any) -> bytes:
    return json.dumps(document).encode()


def values(rng: Random, data: bytes) -> bytes:
    """Fields of events and their arguments have values of other types and sizes."""
    document, events = _document(data)
    for _ in range(rng.choice((1, 5, 50))):
        event = rng.choice(events)
        target = event["args"] if isinstance(event.get("args"), dict) and rng.random() < 0.5 else event
        if target:
            target[rng.choice(sorted(target))] = rng.choice(VALUES)
    return _text(document)


def field(rng: Random, data: bytes) -> bytes:
    """One field has one other value in every event."""
    document, events = _document(data)
    name = rng.choice(("ts", "dur", "pid", "tid", "name", "cat", "ph", "args", "correlation", "device", "stream"))
    value = rng.choice(VALUES[: -len(NUMBERS)]) if rng.random() < 0.3 else rng.choice(NUMBERS)
    value = value if not isinstance(value, str) else value[:1000]
    for event in events:
        target = event.get("args", {}) if name in ("correlation", "device", "stream") else event
        if isinstance(target, dict) and name in target:
            target[name] = value
    return _text(document)


def times(rng: Random, data: bytes) -> bytes:
    """Some times lie at the edges of what can be counted."""
    document, events = _document(data)
    edges = ("-9223372036854775.807", "9223372036854775.807", "9223372036854775.808", "-1", "0.0005", "1e15", "-9e15")
    for event in rng.sample(events, min(len(events), rng.choice((1, 2, 10)))):
        event[rng.choice(("ts", "dur"))] = rng.choice(edges)
    return re.sub(rb'("(?:ts|dur)": )"([^"]*)"', rb"\1\2", _text(document))


def metadata(rng: Random, data: bytes) -> bytes:
    """Facts around the events are odd."""
    document, _events = _document(data)
    if not isinstance(document, dict):
        return values(rng, data)
    keys = [k for k in document if k != "traceEvents"]
    names = [*keys, "baseTimeNanoseconds", "schemaVersion", "distributedInfo", "deviceProperties", "host_name", "ERROR"]
    for _ in range(3):
        document[rng.choice(names)] = rng.choice(VALUES)
    inner = document.get("distributedInfo")
    if isinstance(inner, dict):
        inner[rng.choice(("rank", "world_size", "pg_config"))] = rng.choice(VALUES)
    return _text(document)


def events(rng: Random, data: bytes) -> bytes:
    """Events stand twice, are missing, or lie one inside another."""
    document, found = _document(data)
    for _ in range(rng.choice((1, 20))):
        k = rng.randrange(len(found))
        match rng.randrange(4):
            case 0:
                found.insert(k, json.loads(json.dumps(found[rng.randrange(len(found))])))
            case 1:
                del found[k]
                if not found:
                    found.append({})
            case 2:
                found[k] = rng.choice(VALUES)
            case 3 if isinstance(found[k], dict):
                found[k]["args"] = [found[k].get("args")]
    return _text(document)


def indented(rng: Random, data: bytes) -> bytes:
    """Other white space."""
    document, _events = _document(data)
    form = rng.choice(({"indent": 0}, {"indent": 3}, {"separators": (",", ":")}, {"ensure_ascii": False}))
    return (
        b" \r\n"[: rng.randrange(4)]
        + json.dumps(document, **form).encode("utf-8", "replace")
        + b"\n" * rng.randrange(2)
    )


def keys(rng: Random, data: bytes) -> bytes:
    """Keys in another order, unknown ones among them."""
    document, found = _document(data)
    if isinstance(document, dict):
        pairs = [*document.items(), ("unknown", {"a": [1, {"b": None}]})]
        rng.shuffle(pairs)
        document = dict(pairs)
    for event in found:
        if isinstance(event, dict):
            pairs = list(event.items())
            rng.shuffle(pairs)
            event.clear()
            event.update(pairs)
    return _text(document)


def shuffled(rng: Random, data: bytes) -> bytes:
    """Events in another order; those of one start keep theirs, which decides what is inside what."""
    document, found = _document(data)
    groups: dict[str, list[Any]] = {}
    for event in found:
        groups.setdefault(str(event.get("ts")) if isinstance(event, dict) else "", []).append(event)
    order = list(groups)
    rng.shuffle(order)
    found[:] = [event for name in order for event in groups[name]]
    return _text(document)


# ---------------------------------------------------------------- SQLite


def _tables(database: sqlite3.Connection) -> dict[str, list[str]]:
    names = [t for (t,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    return {t: [row[1] for row in database.execute(f'PRAGMA table_info("{t}")')] for t in names}


def _edited(data: bytes, edit: Callable[[sqlite3.Connection, dict[str, list[str]]], None]) -> bytes:
    database = sqlite3.connect(":memory:", isolation_level=None)
    try:
        database.deserialize(data)
        edit(database, _tables(database))
        return database.serialize()
    finally:
        database.close()


_EVENTS = (
    "CUPTI_",
    "NVTX_EVENTS",
    "OSRT_API",
    "StringIds",
    "TARGET_",
    "ThreadNames",
    "PROCESSES",
    "META_",
    "COMPOSITE",
)


def _pick(rng: Random, tables: dict[str, list[str]]) -> str:
    chosen = [t for t in tables if t.startswith(_EVENTS)] if rng.random() < 0.9 else []
    return rng.choice(chosen or list(tables))


def pages(rng: Random, data: bytes) -> bytes:
    """A page is noise, zeros, or another page."""
    size = int.from_bytes(data[16:18], "big") or 4096
    count = max(1, len(data) // size)
    at = rng.randrange(count) * size
    other = rng.randrange(count) * size
    page = rng.choice((rng.randbytes(size), bytes(size), data[other : other + size]))
    return data[:at] + page + data[at + size :]


def header(rng: Random, data: bytes) -> bytes:
    """Bytes of the header of the file or of a page are other ones."""
    size = int.from_bytes(data[16:18], "big") or 4096
    out = bytearray(data)
    at = (
        rng.randrange(16, 100)
        if rng.random() < 0.5
        else rng.randrange(max(1, len(data) // size)) * size + rng.randrange(12)
    )
    out[min(at, len(out) - 1)] = rng.choice((0, 1, 5, 13, 127, 128, 255))
    return bytes(out)


def drop_table(rng: Random, data: bytes) -> bytes:
    """Tables are missing."""

    def edit(database: sqlite3.Connection, tables: dict[str, list[str]]) -> None:
        for table in rng.sample(list(tables), min(len(tables), rng.choice((1, 2, 8)))):
            database.execute(f'DROP TABLE "{table}"')

    return _edited(data, edit)


def drop_column(rng: Random, data: bytes) -> bytes:
    """Columns are missing or have another name."""

    def edit(database: sqlite3.Connection, tables: dict[str, list[str]]) -> None:
        for _ in range(rng.choice((1, 4))):
            table = _pick(rng, tables)
            column = rng.choice(tables[table])
            if rng.random() < 0.7 and len(tables[table]) > 1 and not (table == "StringIds" and column == "id"):
                database.execute(f'CREATE TABLE other AS SELECT * FROM "{table}"')
                database.execute(f'ALTER TABLE other DROP COLUMN "{column}"')
                database.execute(f'DROP TABLE "{table}"')
                database.execute(f'ALTER TABLE other RENAME TO "{table}"')
                tables[table].remove(column)
            else:
                database.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO "other {column}"')
                tables[table][tables[table].index(column)] = f"other {column}"

    return _edited(data, edit)


def cells(rng: Random, data: bytes) -> bytes:
    """Nulls, texts, blobs and integers at the edges stand where they should not."""

    def edit(database: sqlite3.Connection, tables: dict[str, list[str]]) -> None:
        for _ in range(rng.choice((1, 3, 12))):
            _set(rng, database, tables)

    return _edited(data, edit)


def _set(rng: Random, database: sqlite3.Connection, tables: dict[str, list[str]]) -> None:
    table = _pick(rng, tables)
    column = rng.choice(tables[table])
    odd = (None, "text", "\x1b[31m", b"\x00\xff", 1.5, 1e300, float("inf"), "7", "", "n" * 10_000, b"\xff\xfe" * 100)
    value = rng.choice(_INT64) if rng.random() < 0.6 else rng.choice(odd)
    where = rng.choice(("", "WHERE rowid % 3 = 0", f'WHERE rowid = (SELECT min(rowid) FROM "{table}")'))
    # Without its declaration a column takes anything, nulls among them.
    try:
        database.execute(f'UPDATE OR REPLACE "{table}" SET "{column}" = ? {where}', (value,))
    except sqlite3.DatabaseError:
        database.execute(f'CREATE TABLE other AS SELECT * FROM "{table}"')
        database.execute(f'DROP TABLE "{table}"')
        database.execute(f'ALTER TABLE other RENAME TO "{table}"')
        database.execute(f'UPDATE "{table}" SET "{column}" = ? {where}', (value,))


def backwards(rng: Random, data: bytes) -> bytes:
    """Events end before they start, or lie at the edges of 64 bits."""

    def edit(database: sqlite3.Connection, tables: dict[str, list[str]]) -> None:
        timed = [t for t, columns in tables.items() if {"start", "end"} <= set(columns)]
        for table in rng.sample(timed, min(len(timed), 2)):
            edge = rng.choice(_INT64)
            how = rng.choice(
                ("start = end, end = start", f"end = {edge}", f"start = {edge}", f"start = start + {edge // 2}")
            )
            some = rng.choice(("", " WHERE rowid % 5 = 0"))
            database.execute(f'UPDATE OR IGNORE "{table}" SET {how}{some}')

    return _edited(data, edit)


def identities(rng: Random, data: bytes) -> bytes:
    """Correlations, threads, processes, devices, streams and names have odd numbers."""

    def edit(database: sqlite3.Connection, tables: dict[str, list[str]]) -> None:
        wanted = (
            "correlationId",
            "globalTid",
            "globalPid",
            "deviceId",
            "streamId",
            "contextId",
            "nameId",
            "id",
            "value",
        )
        places = [(t, c) for t, columns in tables.items() for c in columns if c in wanted and t.startswith(_EVENTS)]
        for table, column in rng.sample(places, min(len(places), rng.choice((1, 3)))):
            value = rng.choice((str(rng.choice(_INT64)), f'-"{column}"', f'"{column}" << 30', "rowid"))
            some = rng.choice(("", " WHERE rowid % 4 = 0"))
            database.execute(f'UPDATE OR IGNORE "{table}" SET "{column}" = {value}{some}')

    return _edited(data, edit)


def rows(rng: Random, data: bytes) -> bytes:
    """Rows stand twice or are missing."""

    def edit(database: sqlite3.Connection, tables: dict[str, list[str]]) -> None:
        table = _pick(rng, tables)
        if rng.random() < 0.5:
            database.execute(f'INSERT OR IGNORE INTO "{table}" SELECT * FROM "{table}"')
        else:
            database.execute(f'DELETE FROM "{table}" WHERE rowid % {rng.randrange(1, 5)} = 0')

    return _edited(data, edit)


def views(rng: Random, data: bytes) -> bytes:
    """A table of events is a view, one without row ids, or one with an index; hostile names stand beside it."""

    def edit(database: sqlite3.Connection, tables: dict[str, list[str]]) -> None:
        table = _pick(rng, tables)
        database.execute(f'ALTER TABLE "{table}" RENAME TO "a""b\' c"')
        if rng.random() < 0.5:
            database.execute(f'CREATE VIEW "{table}" AS SELECT * FROM "a""b\' c"')
        else:
            database.execute(f'CREATE VIEW "{table}" AS SELECT * FROM absent')

    return _edited(data, edit)


def repacked(rng: Random, data: bytes) -> bytes:
    """The same rows on pages of another size, after tables that nobody knows."""

    def edit(database: sqlite3.Connection, tables: dict[str, list[str]]) -> None:
        database.execute('CREATE TABLE "unknown table" (a, "b c")')
        database.execute("INSERT INTO \"unknown table\" VALUES ('x', 1), (NULL, x'00')")
        database.execute('CREATE INDEX strange ON "unknown table" (a)')
        database.execute(f"PRAGMA page_size = {rng.choice((512, 1024, 8192, 65536))}")
        database.execute("VACUUM")

    return _edited(data, edit)


# ---------------------------------------------------------------- compression


def gzipped(rng: Random, data: bytes) -> bytes:
    """Gzipped, in one or two members."""
    at = rng.randrange(len(data)) if rng.random() < 0.5 else len(data)
    members = [gzip.compress(part, rng.choice((1, 6)), mtime=0) for part in (data[:at], data[at:]) if part]
    return b"".join(members) + bytes(rng.choice((0, 0, 512)))


def _gzipped_once(_rng: Random, data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def zipped(_rng: Random, data: bytes) -> bytes:
    """In a zip of its own."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("content", data)
    return out.getvalue()


def _then(pack: Change, damage: Change) -> Change:
    return lambda rng, data: damage(rng, pack(rng, data))


ANY = (
    Mutation("flip", flip),
    Mutation("noise", noise),
    Mutation("cut", cut, cut=True),
    Mutation("zeros", zeros),
    Mutation("delete", delete),
    Mutation("double", double),
    Mutation("swap", swap),
    Mutation("insert", insert),
    Mutation("gzip", gzipped, whole=True),
    Mutation("zip", zipped, whole=True),
    Mutation("gzip cut", _then(_gzipped_once, cut), cut=True),
    Mutation("gzip flip", _then(gzipped, flip)),
    Mutation("gzip noise", _then(gzipped, noise)),
    Mutation("zip cut", _then(zipped, cut), cut=True),
    Mutation("zip flip", _then(zipped, flip)),
    Mutation("cut, then gzip", _then(cut, gzipped), cut=True),
)


def crlf(_rng: Random, data: bytes) -> bytes:
    """Lines end as on Windows."""
    return data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def surrounded(rng: Random, data: bytes) -> bytes:
    """The profiled program printed something before and after the table."""
    said = (b"loading data\n", b"==PROF== Connected to process 7\n", b"loss: 0.5, step 3\n", b"{'lr': 1e-3}\n", b"\n")
    before, after = (b"".join(rng.choices(said, k=rng.randrange(4))) for _ in range(2))
    return before + data + (b"" if data.endswith(b"\n") else b"\n") + after


def lines(rng: Random, data: bytes) -> bytes:
    """Some lines are missing, there twice or in another place."""
    out = data.splitlines(keepends=True)
    for _ in range(rng.randrange(1, 5)):
        line = out.pop(rng.randrange(len(out))) if len(out) > 1 else b""
        for _ in range(rng.choice((0, 1, 2))):
            out.insert(rng.randrange(len(out) + 1), line)
    return b"".join(out)


def fields(rng: Random, data: bytes) -> bytes:
    """Some fields of a table hold something else, or are not there."""
    out = data.split(b'","')
    for _ in range(rng.choice((1, 3, 10))):
        others = (b"", b"n/a", b"(!) nan", b"-1", b"1e400", b"99999999999999999999", b"1.234.567", b"1,2,3", b"%", b'"')
        out[rng.randrange(len(out))] = rng.choice(others)
    if rng.random() < 0.3 and len(out) > 1:
        del out[rng.randrange(len(out))]
    return b'","'.join(out)


def cut_report(rng: Random, data: bytes) -> bytes:
    """The end is missing, and what is left does not end with a block: nothing tells of blocks that are missing."""
    rest = cut(rng, data)
    return rest[:-1] if extent_of(io.BytesIO(rest)).whole else rest


# A page that ends after a whole line, and a report that ends after a whole block, do not tell that there was more.
_OF_NCU = tuple(Mutation(m.name, m.change, m.whole, m.cut and m.name.startswith(("gzip", "zip"))) for m in ANY)
MUTATIONS: dict[str, tuple[Mutation, ...]] = {
    "ncu": (
        *_OF_NCU,
        Mutation("lines", lines),
        Mutation("fields", fields),
        Mutation("crlf", crlf, whole=True),
        Mutation("surrounded", surrounded, whole=True),
    ),
    "ncu-rep": tuple(Mutation(m.name, cut_report, cut=True) if m.name == "cut" else m for m in _OF_NCU),
    "torch": (
        *ANY,
        Mutation("number", number),
        Mutation("values", values),
        Mutation("field", field),
        Mutation("times", times),
        Mutation("metadata", metadata),
        Mutation("events", events),
        Mutation("indented", indented, whole=True),
        Mutation("keys", keys, whole=True),
        Mutation("shuffled", shuffled, whole=True),
    ),
    "nsys": (
        *ANY,
        Mutation("pages", pages),
        Mutation("header", header),
        Mutation("drop table", drop_table),
        Mutation("drop column", drop_column),
        Mutation("cells", cells),
        Mutation("backwards", backwards),
        Mutation("identities", identities),
        Mutation("rows", rows),
        Mutation("views", views),
        Mutation("repacked", repacked, whole=True),
    ),
}
