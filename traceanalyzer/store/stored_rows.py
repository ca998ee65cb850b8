"""Rows of a staged capture as the stored tables have them: codes become the store's ids, derived columns are added."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from traceanalyzer.schema.batches import is_single, joined, single_if_possible
from traceanalyzer.schema.column import Type
from traceanalyzer.schema.sink import Values
from traceanalyzer.schema.tables import TABLE_BY_NAME
from traceanalyzer.store.derive import DerivedOperations, Nesting, Step
from traceanalyzer.store.recorded import NULL
from traceanalyzer.store.staging import NODE_COLUMNS, STAGED, Staging, null_below_zero

BATCH_ROWS = 122_880
"""Rows that are stored at once: a row group of the engine."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers of a capture as numbers of the store: ids of names by codes, nodes by the capture's nodes, the capture's
    own."""

    name_ids: NDArray[np.int32]
    node_ids: NDArray[np.int64]
    capture: int


def store_operations(
    connection: duckdb.DuckDBPyConnection, staging: Staging, operations: DerivedOperations, numbers: Numbers
) -> None:
    """Put the device operations of a capture and its steps into the stored tables. The staged rows are used up."""
    for batch in staging.held["gpu_ops"].take_joined(BATCH_ROWS):
        append(connection, "stored.gpu_ops", _stored("gpu_ops", _with_launches(batch, operations), numbers))
    if operations.steps:
        append(connection, "stored.steps", _stored("steps", _steps(operations.steps), numbers))


def store_others(writer: "RowWriter", staging: Staging, nesting: Nesting, numbers: Numbers) -> None:
    """Put all other rows of a capture into the stored tables. The staged rows are used up."""
    for table in STAGED:
        batches = staging.held[table.name].take_joined(BATCH_ROWS)
        if table.name == "cpu_events":
            batches = (_with_nesting(batch, staging, nesting) for batch in batches)
        elif table.name == "devices":
            batches = _devices(list(batches), staging)
        for batch in batches:
            writer.append(f"stored.{table.name}", _stored(table.name, batch, numbers))
    for changes in nesting.changes:
        writer.append("stored.stack_changes", _stored("stack_changes", changes, numbers))


class RowWriter:
    """Works on the engine in a thread of its own, one task after another, while the next one is made ready.

    A context manager. At its end all is done; an error of the engine is raised at the next call or there. Until `wait`
    nobody else may use the connection.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._thread = ThreadPoolExecutor(1, "store")
        self._task: Future[None] | None = None

    def __enter__(self) -> "RowWriter":
        return self

    def begin(self, task: Callable[..., None], *arguments: object) -> None:
        """Begins a task when the one before is done."""
        self.wait()
        self._task = self._thread.submit(task, *arguments)

    def append(self, table: str, columns: Mapping[str, Values]) -> None:
        """Begins to append numpy columns to a table of the engine."""
        self.begin(append, self._connection, table, columns)

    def wait(self) -> None:
        """Returns when nothing is being done. Raises the engine's errors."""
        if self._task is not None:
            task, self._task = self._task, None
            task.result()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.wait()
            else:
                self._connection.interrupt()
        finally:
            self._thread.shutdown(wait=True)


def append(connection: duckdb.DuckDBPyConnection, table: str, columns: Mapping[str, Values]) -> None:
    """Append numpy columns to a table of the engine."""
    count = len(next(iter(columns.values())))
    batch_of_rows = {name: values for name, values in columns.items() if count == 1 or not is_single(values)}
    selected = ", ".join(name if name in batch_of_rows else str(columns[name][0]) for name in columns)
    source = "batch_of_rows" if batch_of_rows else f"range({count})"
    # The engine finds the variable by its name. A registered view it would keep, with all rows, until the commit.
    connection.execute(f"INSERT INTO {table} ({', '.join(columns)}) SELECT {selected} FROM {source}")


def _with_nesting(batch: dict[str, Values], staging: Staging, nesting: Nesting) -> dict[str, Values]:
    event_id = np.asarray(batch["event_id"])
    kinds = staging.recorded.event_kinds(batch["kind"], batch["name"]) if "name" in batch else batch["kind"]
    columns = zip(("parent_id", "depth", "node_id"), nesting.of_events(event_id), strict=True)
    return batch | {"kind": kinds} | {name: null_below_zero(values) for name, values in columns}


def _with_launches(batch: dict[str, Values], operations: DerivedOperations) -> dict[str, Values]:
    op_id = np.asarray(batch["op_id"])
    launches = {
        "launch_event_id": null_below_zero(operations.launch_event_id[op_id]),
        "step": operations.step[op_id],
        "lane": single_if_possible(operations.lane[op_id]),
    }
    return batch | launches


def _devices(batches: list[dict[str, Values]], staging: Staging) -> Iterator[dict[str, Values]]:
    """Devices that the file lists and those that operations ran on, in the order of their numbers."""
    counts = staging.recorded.device_operations
    listed = joined(batches) if batches else {}
    known = set(listed["device"].tolist()) if listed else set()
    others = np.array(sorted(counts.keys() - known), np.int32)
    rows = joined([part for part in (listed, {"device": others}) if part and len(part["device"])] or [{}])
    if rows:
        rows = {name: values[np.argsort(rows["device"], kind="stable")] for name, values in rows.items()}
        yield rows | {"n_ops": np.array([counts[device] for device in rows["device"].tolist()], np.int64)}


def _steps(steps: list[Step]) -> dict[str, Values]:
    names = ("process", "thread", "step", "name", "start_ns", "end_ns", "mark_end_ns")
    columns: dict[str, Values] = {
        name: np.array(values, np.int64) for name, values in zip(names, zip(*steps, strict=True), strict=True)
    }
    columns["thread"] = np.ma.MaskedArray(columns["thread"], columns["thread"] == NULL)
    columns["name"] = null_below_zero(columns["name"])
    return columns


def _stored(table: str, batch: Mapping[str, Values], numbers: Numbers) -> dict[str, Values]:
    """The columns of a batch as the store has them."""
    count = len(next(iter(batch.values())))
    out: dict[str, Values] = {}
    declared = TABLE_BY_NAME[table]
    for column in declared.columns:
        values = _without_mask(batch.get(column.name))
        if column.name == "capture":
            out["capture"] = np.broadcast_to(np.int32(numbers.capture), (count,))
        elif values is None:
            continue
        elif column.type is Type.NAME:
            out[column.name] = _looked_up(values, numbers.name_ids)
        elif column.name in NODE_COLUMNS:
            out[column.name] = _looked_up(values, numbers.node_ids)
        else:
            out[column.name] = values
    return out


def _without_mask(values: Values | None) -> Values | None:
    """The same column; None where every value is null, which need not be written, and plain where none is."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    mask = np.ma.getmaskarray(values)
    if mask.all():
        return None
    return values if mask.any() else values.data


def _looked_up(values: Values, ids: NDArray[Any]) -> Values:
    if is_single(values):
        return np.broadcast_to(ids[values[:1]], values.shape)
    found = ids[np.ma.getdata(values)] if len(ids) else np.zeros(len(values), ids.dtype)  # all are null then
    return np.ma.MaskedArray(found, values.mask) if isinstance(values, np.ma.MaskedArray) else found
