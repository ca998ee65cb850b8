"""Opening and making the store: one writer or any number of readers, never a half-made file."""

import contextlib
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb

from traceanalyzer.errors import SchemaVersionError, StoreBusyError, StoreError
from traceanalyzer.schema.tables import SCHEMA_VERSION
from traceanalyzer.schema.text import is_storable
from traceanalyzer.store.ddl import create_statements, version_row
from traceanalyzer.version import __version__

WAIT_TO_WRITE_S = 10.0
WAIT_TO_READ_S = 2.0
MEMORY_LIMIT = "2GB"
_MAGIC = b"DUCK"


def is_about_the_store(error: duckdb.Error) -> bool:
    """Whether the file, the disk or the memory is at fault, rather than a statement of ours.

    Of damaged blocks the engine tells with an error that has no class of its own.
    """
    of_file = (duckdb.IOException, duckdb.OutOfMemoryException, duckdb.FatalException, duckdb.SerializationException)
    failed_commit = isinstance(error, duckdb.TransactionException) and "Failed to commit" in str(error)
    return isinstance(error, of_file) or failed_commit or type(error) is duckdb.Error


@contextlib.contextmanager
def duckdb_errors(path: Path, doing: str) -> Iterator[None]:
    """Turn the engine's errors into one line that names the store. Programming errors of ours pass through."""
    try:
        yield
    except duckdb.Error as error:
        if not is_about_the_store(error):
            raise
        raise StoreError(f"{path}: the store cannot be {doing}: {one_line(error)}") from error
    except OSError as error:
        raise StoreError(f"{path}: the store cannot be {doing}: {error.strerror or error}") from error


def first_row(result: duckdb.DuckDBPyConnection) -> tuple[Any, ...] | None:
    """The first row of a result, or None. The result is read to its end: one that is not keeps the connection busy."""
    rows = result.fetchall()
    return rows[0] if rows else None


def one_line(error: BaseException) -> str:
    """The first line of an engine's message, without its class in front."""
    text = str(error).strip().split("\n")[0]
    return re.sub(r"^(?:TransactionContext )?(?:\w+ )?(?:Error|Exception): ", "", text)


def open_to_read(path: Path) -> duckdb.DuckDBPyConnection:
    """A read-only connection to a store.

    Raises `StoreError` (no such store, no store, unreadable), `SchemaVersionError` or `StoreBusyError`.
    """
    if not path.exists():
        raise StoreError(f"{path}: no such store; make one with: traceanalyzer ingest FILE... --db {path}")
    with duckdb_errors(path, "opened"), path.open("rb") as file:
        if file.read(12)[8:] != _MAGIC:
            raise StoreError(f"{path}: not a store; a trace is given without --db, as in: traceanalyzer gaps {path}")
    connection = _connect(path, read_only=True, wait_s=WAIT_TO_READ_S)
    return _checked(connection, path)


def open_to_write(path: Path) -> duckdb.DuckDBPyConnection:
    """The writing connection to a store, which is made where there is none. Raises as `open_to_read` does."""
    if is_storable(str(path)) and not path.exists():
        _make(path)
    connection = _connect(path, read_only=False, wait_s=WAIT_TO_WRITE_S)
    return _checked(connection, path)


def _make(path: Path) -> None:
    """Make an empty store under a temporary name and put it in place, so that no one ever meets half of one."""
    with duckdb_errors(path, "made"):
        if not path.parent.is_dir():
            raise StoreError(f"{path}: the folder {path.parent} does not exist; make it first")
        # The name is chosen before the folder is made: an interrupt at any moment finds it in order to remove it.
        folder = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            folder.mkdir()
            fresh = folder / "fresh.duckdb"
            with duckdb.connect(str(fresh)) as connection:
                connection.execute("BEGIN")
                connection.execute(";\n".join(create_statements()))
                connection.execute(version_row(__version__))
                connection.execute("COMMIT")
                # What is written when a connection closes may fail without a word, as on a full disk.
                connection.execute("CHECKPOINT")
            _put_in_place(fresh, path)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _put_in_place(fresh: Path, path: Path) -> None:
    try:
        os.link(fresh, path)  # fails where another process was faster, whose store then serves as well
    except FileExistsError:
        return
    except OSError:
        fresh.rename(path)


def _connect(path: Path, *, read_only: bool, wait_s: float) -> duckdb.DuckDBPyConnection:
    if not is_storable(str(path)):
        raise StoreError(f"{path}: the name of a store has to be UTF-8; give another --db")
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": MEMORY_LIMIT,
        "temp_directory": str(Path(tempfile.gettempdir()) / f"traceanalyzer-{os.getpid()}"),
        # The writer reads rows from variables of ours by name; statements of users are never run on its connection.
        "python_enable_replacements": "false" if read_only else "true",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }
    give_up = time.monotonic() + wait_s
    while True:
        try:
            return duckdb.connect(str(path), read_only=read_only, config=config)
        except duckdb.IOException as error:
            if "lock" not in str(error):
                raise StoreError(f"{path}: the store cannot be opened: {one_line(error)}") from error
            if time.monotonic() > give_up:
                holder = re.search(r"PID (\d+)", str(error))
                who = f"process {holder[1]}" if holder else "another process"
                raise StoreBusyError(
                    f"{path}: {who} has the store open to write it; try again when it has ended, or use another --db"
                ) from error
            time.sleep(0.05)
        except duckdb.Error as error:
            raise StoreError(f"{path}: not a store that can be opened: {one_line(error)}") from error


def _checked(connection: duckdb.DuckDBPyConnection, path: Path) -> duckdb.DuckDBPyConnection:
    try:
        row = first_row(connection.execute("SELECT schema_version, made_by FROM stored.version"))
    except duckdb.Error as error:
        connection.close()
        if is_about_the_store(error):
            raise StoreError(f"{path}: the store cannot be read: {one_line(error)}") from error
        raise StoreError(f"{path}: a DuckDB file, but not a store of traceanalyzer; give another --db") from error
    version, made_by = row or (0, "?")
    if version != SCHEMA_VERSION:
        connection.close()
        age = "older" if version < SCHEMA_VERSION else "newer"
        advice = (
            "ingest the files into a new store"
            if version < SCHEMA_VERSION
            else f"install gpu-traceanalyzer {made_by} or newer"
        )
        raise SchemaVersionError(
            f"{path}: the store has schema version {version}, made by traceanalyzer {made_by}, which is {age} than"
            f" this program's {SCHEMA_VERSION}; {advice}"
        )
    return connection
