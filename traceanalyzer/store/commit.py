"""Putting a staged capture into the store, in one transaction: everything or nothing."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import duckdb
import msgspec
import numpy as np
from numpy.typing import NDArray

from traceanalyzer.schema.kinds import RankSource
from traceanalyzer.schema.sink import NodeKey
from traceanalyzer.store.allocation import give_back_freed
from traceanalyzer.store.derive import derive_operations, derive_stacks
from traceanalyzer.store.staging import MOST_TIME_NS, Staging
from traceanalyzer.store.stored_rows import Numbers, RowWriter, append, store_operations, store_others


@dataclass(frozen=True, slots=True)
class CaptureRow:
    """What the catalogue decided of a capture: its number, run, rank and file."""

    capture: int
    run: str
    path: str
    source: str
    content_hash: Callable[[], str]
    """Asked for when all else is worked out: a large file is hashed meanwhile."""
    file_bytes: int
    rank: int | None
    rank_source: RankSource | None


_MANY_EVENTS = 1 << 20
"""Below this there is little memory to give back, and taking it again would cost more than it helps."""


def commit_capture(connection: duckdb.DuckDBPyConnection, staging: Staging, row: CaptureRow) -> None:
    """Work out the derived columns and put everything staged into the stored tables.

    Runs inside the caller's transaction. Raises the engine's errors; the caller rolls back.
    """
    large = staging.rows["cpu_events"] >= _MANY_EVENTS
    if large:
        give_back_freed()  # what reading needed
    operations = derive_operations(staging)
    if large:
        give_back_freed()
    numbers = Numbers(_add_names(connection, staging.texts.all), np.zeros(0, np.int64), row.capture)
    with RowWriter(connection) as writer:
        # Operations know no stacks: they are stored while these are worked out.
        writer.begin(store_operations, connection, staging, operations, numbers)
        del operations
        if large:
            writer.wait()  # both at once would need the memory of both
        nesting = derive_stacks(staging)
        writer.wait()
        more = _add_names(connection, staging.texts.all[len(numbers.name_ids) :])
        name_ids = np.concatenate((numbers.name_ids, more))
        numbers = Numbers(name_ids, _add_nodes(connection, staging, name_ids), row.capture)
        if large:
            give_back_freed()  # what stacks needed
        store_others(writer, staging, nesting, numbers)
    _add_capture(connection, staging, row)
    _rank_devices(connection, row.capture)


def _add_names(connection: duckdb.DuckDBPyConnection, texts: list[str]) -> NDArray[np.int32]:
    """Adds names that the store does not have yet. Returns the store's id of each text."""
    ids = np.zeros(len(texts), np.int32)
    if not texts:
        return ids
    column = np.empty(len(texts), object)
    column[:] = texts
    connection.execute("CREATE OR REPLACE TEMP TABLE new_names (code INTEGER, text VARCHAR)")
    append(connection, "new_names", {"code": np.arange(len(texts), dtype=np.int32), "text": column})
    connection.execute(
        """INSERT INTO stored.names
        SELECT (SELECT coalesce(max(name_id), -1) FROM stored.names) + row_number() OVER (ORDER BY code), text
        FROM new_names s WHERE NOT EXISTS (SELECT 1 FROM stored.names n WHERE n.text = s.text)"""
    )
    got = connection.execute("SELECT code, name_id FROM new_names JOIN stored.names USING (text)").fetchnumpy()
    connection.execute("DROP TABLE new_names")
    ids[np.asarray(got["code"])] = np.asarray(got["name_id"])
    return ids


def _add_nodes(
    connection: duckdb.DuckDBPyConnection, staging: Staging, name_ids: NDArray[np.int32]
) -> NDArray[np.int64]:
    """Adds stack nodes that the store does not have yet. Returns the store's number of each of the capture's nodes."""
    mapping = np.full(len(staging.stacks), -1, np.int64)
    known: dict[NodeKey, int] = {
        (parent, frame, file, line, module, kind): node
        for node, parent, frame, file, line, module, kind in connection.execute(
            "SELECT node_id, coalesce(parent_id, -1), frame, coalesce(file, -1), coalesce(line, -1),"
            " coalesce(module, -1), coalesce(kind::INTEGER, -1) FROM stored.stack_nodes"
        ).fetchall()
    }
    fresh: list[tuple[int, ...]] = []
    count = len(known)
    ids = [*name_ids.tolist(), -1]  # a text of -1, none, stays -1
    for local, (parent, frame, file, line, module, kind) in enumerate(staging.stacks.nodes):
        key = (int(mapping[parent]) if parent >= 0 else -1, ids[frame], ids[file], line, ids[module], kind)
        node = known.setdefault(key, count)
        if node == count:
            fresh.append((count, *key))
            count += 1
        mapping[local] = node
    if fresh:
        names = ("node_id", "parent_id", "frame", "file", "line", "module", "kind")
        columns = {n: np.array(v, np.int64) for n, v in zip(names, zip(*fresh, strict=True), strict=True)}
        for name in ("parent_id", "file", "line", "module", "kind"):
            columns[name] = np.ma.masked_array(np.maximum(columns[name], 0), mask=columns[name] < 0)
        append(connection, "stored.stack_nodes", columns)
    return mapping


def _add_capture(connection: duckdb.DuckDBPyConnection, staging: Staging, row: CaptureRow) -> None:
    facts = staging.facts
    start, end = facts.start_ns, facts.end_ns
    if start is None or end is None or start < -MOST_TIME_NS or end > MOST_TIME_NS:
        start, end = staging.recorded.first_ns, staging.recorded.last_ns
    values: dict[str, Any] = {
        "capture": row.capture,
        "run": row.run,
        "path": row.path,
        "source": row.source,
        "tool_version": facts.tool_version,
        "format_version": facts.format_version,
        "host": facts.host,
        "rank": row.rank,
        "rank_source": None if row.rank_source is None else int(row.rank_source),
        "world_size": facts.world_size,
        "start_ns": start,
        "end_ns": end,
        "utc_offset_ns": facts.utc_offset_ns,
        "whole": facts.whole,
        "content_hash": row.content_hash(),
        "file_bytes": row.file_bytes,
        "metadata": msgspec.json.encode(facts.metadata).decode("utf-8", "replace"),
    }
    _insert_row(connection, "captures", values)
    for (code, text, severity), count in sorted(staging.notes.items(), key=lambda item: (-item[0][2], item[0])):
        note = {"capture": row.capture, "code": code, "severity": int(severity), "count": count, "text": text}
        _insert_row(connection, "quality", note)


def _insert_row(connection: duckdb.DuckDBPyConnection, table: str, values: dict[str, Any]) -> None:
    marks = ", ".join("?" * len(values))
    connection.execute(f"INSERT INTO stored.{table} ({', '.join(values)}) VALUES ({marks})", list(values.values()))


def _rank_devices(connection: duckdb.DuckDBPyConnection, capture: int) -> None:
    """Rank of each device: that of the processes that use it, if it is one; of devices nobody uses none."""
    connection.execute(
        """UPDATE stored.devices SET rank = r.rank FROM (
            SELECT o.device, CASE WHEN count(DISTINCT o.rank) = 1 THEN min(o.rank) END AS rank
            FROM (SELECT DISTINCT o.device, coalesce(p.rank, c.rank) AS rank FROM stored.gpu_ops o
                  JOIN stored.captures c USING (capture)
                  LEFT JOIN stored.processes p ON p.capture = o.capture AND p.process = o.process
                  WHERE o.capture = $capture) o GROUP BY o.device) r
        WHERE devices.capture = $capture AND devices.device = r.device""",
        {"capture": capture},
    )
