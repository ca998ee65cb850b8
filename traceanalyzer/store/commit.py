"""Putting a staged capture into the store, in one transaction: everything or nothing."""

from dataclasses import dataclass
from typing import Any

import duckdb
import msgspec
import numpy as np

from traceanalyzer.schema.column import Column, Table, Type
from traceanalyzer.schema.kinds import RankSource
from traceanalyzer.schema.sink import NodeKey
from traceanalyzer.schema.tables import TABLE_BY_NAME
from traceanalyzer.store.database import first_row
from traceanalyzer.store.derive import derive, drop_derived, lane_expression
from traceanalyzer.store.staging import MOST_TIME_NS, STAGED, Staging, append


@dataclass(frozen=True, slots=True)
class CaptureRow:
    """What the catalogue decided of a capture: its number, run, rank and file."""

    capture: int
    run: str
    path: str
    source: str
    content_hash: str
    file_bytes: int
    rank: int | None
    rank_source: RankSource | None


def commit_capture(staging: Staging, row: CaptureRow) -> None:
    """Work out the derived columns and move everything staged into the stored tables.

    Runs inside the caller's transaction. Raises the engine's errors; the caller rolls back.
    """
    connection = staging.connection
    staging.flush()
    try:
        derive(staging)
        _add_names(staging)
        _add_nodes(staging)
        _add_capture(staging, row)
        for table in STAGED:
            connection.execute(_insert(table, row.capture))
        for name in ("steps", "stack_changes"):
            connection.execute(_insert(TABLE_BY_NAME[name], row.capture))
        _rank_devices(connection, row.capture)
    finally:
        drop_derived(connection)
        for name in ("names", "nodes"):
            connection.execute(f"DROP TABLE IF EXISTS stage_{name}")


def _add_names(staging: Staging) -> None:
    """Names that the store does not have yet; `stage_names` maps the capture's codes to the store's ids."""
    connection = staging.connection
    texts = staging.texts.all
    connection.execute("CREATE OR REPLACE TEMP TABLE stage_names (code INTEGER, text VARCHAR, name_id INTEGER)")
    if texts:
        column = np.empty(len(texts), object)
        column[:] = texts
        append(connection, "stage_names", {"code": np.arange(len(texts), dtype=np.int32), "text": column})
    connection.execute(
        """INSERT INTO stored.names
        SELECT (SELECT coalesce(max(name_id), -1) FROM stored.names) + row_number() OVER (ORDER BY code), text
        FROM stage_names s WHERE NOT EXISTS (SELECT 1 FROM stored.names n WHERE n.text = s.text)"""
    )
    connection.execute("UPDATE stage_names SET name_id = n.name_id FROM stored.names n WHERE n.text = stage_names.text")


def _add_nodes(staging: Staging) -> None:
    """Stack nodes that the store does not have yet; `stage_nodes` maps the capture's numbers to the store's."""
    connection = staging.connection
    mapping = np.full(len(staging.stacks), -1, np.int64)
    name_ids = np.zeros(len(staging.texts.all), np.int64)
    got = connection.execute("SELECT code, name_id FROM stage_names").fetchnumpy()
    name_ids[np.asarray(got["code"])] = np.asarray(got["name_id"])
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
    connection.execute("CREATE OR REPLACE TEMP TABLE stage_nodes (local BIGINT, node_id BIGINT)")
    if len(mapping):
        append(connection, "stage_nodes", {"local": np.arange(len(mapping)), "node_id": mapping})


def _add_capture(staging: Staging, row: CaptureRow) -> None:
    facts = staging.facts
    start, end = facts.start_ns, facts.end_ns
    if start is None or end is None or start < -MOST_TIME_NS or end > MOST_TIME_NS:
        found = first_row(
            staging.connection.execute(
                """SELECT min(a), max(b) FROM (
                SELECT min(start_ns) AS a, max(end_ns) AS b FROM stage_gpu_ops
                UNION ALL SELECT min(start_ns), max(end_ns) FROM stage_cpu_events
                UNION ALL SELECT min(t_ns), max(t_ns) FROM stage_metric_samples)"""
            )
        )
        start, end = found or (None, None)
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
        "content_hash": row.content_hash,
        "file_bytes": row.file_bytes,
        "metadata": msgspec.json.encode(facts.metadata).decode("utf-8", "replace"),
    }
    _insert_row(staging.connection, "captures", values)
    for (code, text, severity), count in sorted(staging.notes.items(), key=lambda item: (-item[0][2], item[0])):
        note = {"capture": row.capture, "code": code, "severity": int(severity), "count": count, "text": text}
        _insert_row(staging.connection, "quality", note)


def _insert_row(connection: duckdb.DuckDBPyConnection, table: str, values: dict[str, Any]) -> None:
    marks = ", ".join("?" * len(values))
    connection.execute(f"INSERT INTO stored.{table} ({', '.join(values)}) VALUES ({marks})", list(values.values()))


def _insert(table: Table, capture: int) -> str:
    """SQL that moves a staged table into the stored one: codes become the store's ids, derived columns are joined."""
    joins: list[str] = []
    selected = [_value(table, column, capture, joins) for column in table.columns]
    if table.name == "gpu_ops":
        joins.append("LEFT JOIN stage_launches l ON l.op_id = s.op_id LEFT JOIN stage_op_steps t ON t.op_id = s.op_id")
    elif table.name == "cpu_events":
        joins.append("LEFT JOIN stage_nesting x ON x.event_id = s.event_id")
        joins.append("LEFT JOIN stage_nodes xn ON xn.local = x.node_id")
    staged = _DEVICES if table.name == "devices" else f"stage_{table.name}"
    names = ", ".join(c.name for c in table.columns)
    order = {"gpu_ops": "ORDER BY s.op_id", "cpu_events": "ORDER BY s.event_id"}.get(table.name, "")
    rows = f"SELECT {', '.join(selected)} FROM {staged} s {' '.join(joins)} {order}"
    return f"INSERT INTO stored.{table.name} ({names}) {rows}"


_DERIVED = {
    ("gpu_ops", "launch_event_id"): "l.event_id",
    ("gpu_ops", "step"): "t.step",
    ("gpu_ops", "lane"): lane_expression("s"),
    ("cpu_events", "parent_id"): "x.parent_id",
    ("cpu_events", "depth"): "x.depth",
    ("cpu_events", "node_id"): "xn.node_id",
    ("devices", "rank"): "NULL",
    ("devices", "n_ops"): "s.n_ops",
}

_DEVICES = """(
    SELECT d.* EXCLUDE (device), coalesce(d.device, o.device) AS device, coalesce(o.n_ops, 0) AS n_ops
    FROM stage_devices d FULL JOIN (SELECT device, count(*) AS n_ops FROM stage_gpu_ops GROUP BY device) o
    ON o.device = d.device ORDER BY 1)"""


def _value(table: Table, column: Column, capture: int, joins: list[str]) -> str:
    if column.name == "capture":
        return str(capture)
    if column.derived:
        return _DERIVED[table.name, column.name]
    if column.type is Type.NAME:
        alias = f"n_{column.name}"
        joins.append(f"LEFT JOIN stage_names {alias} ON {alias}.code = s.{column.name}")
        return f"{alias}.name_id"
    if column.name in ("node_id", "backtrace_node_id"):
        alias = f"k_{column.name}"
        joins.append(f"LEFT JOIN stage_nodes {alias} ON {alias}.local = s.{column.name}")
        return f"{alias}.node_id"
    return f"s.{column.name}"


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
