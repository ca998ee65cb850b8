"""Nsight Systems: a report a rank for each pattern and plant, as SQLite, without what it tells of the machine."""

import gzip
import os
import re
import shutil
import socket
import sqlite3
import subprocess
from pathlib import Path

OPTIONS = ("--trace=cuda,nvtx,osrt", "--sample=none", "--cpuctxsw=none", "--python-sampling=true")
BLOBS = ("--include-blobs=true", "--include-json=true")
"""What exports since 2024 hold only when asked for."""
KEPT_VARIABLES = ("RANK=", "WORLD_SIZE=")
"""Of the environment: which rank a report is of."""
KEPT = {
    "TARGET_INFO_SYSTEM_ENV": ("CpuCores", "CpuArchitecture", "NvDriverVersion", "CudaDriverVersion"),
    "META_DATA_CAPTURE": (
        "CAPTURE_EVENT_TYPE",
        "START_TRIGGER",
        "STOP_TRIGGER",
        "%:COLLECT!_%",
        "OS!_RUNTIME!_OPTIONS:%",
    ),
    "META_DATA_EXPORT": ("EXPORT!_PRODUCT!_%", "EXPORT!_SCHEMA!_%", "EXPORT!_TIME!_UTC"),
}
"""What stays of tables of names and values: patterns of names. All else tells of the machine, not of the job."""
DROPPED = ("ANALYSIS_FILE", "ProcessStreams", "TARGET_INFO_NIC_INFO", "NIC_ID_MAP", "NET_NIC_METRIC")
"""Tables that tell paths, what programs print, and the network."""
PLACEHOLDER = "node0"


def tool() -> str:
    """The program: what NSYS says, or the one on the path."""
    return os.environ.get("NSYS", "nsys")


def report_of(folder: str, rank: int) -> Path:
    """Where the reports of a rank lie, without their numbers and endings."""
    return Path(folder) / f"rank{rank}"


def profile_command(report: Path, ranges: int) -> list[str]:
    """What to start a rank under: a report for each of the ranges that it marks."""
    end = f"--capture-range-end=repeat:{ranges}"
    where = ("--capture-range=cudaProfilerApi", end, "--kill=none", "--force-overwrite=true", f"--output={report}")
    return [tool(), "profile", *OPTIONS, *where]


def export(report: Path, number: int, to: Path) -> None:
    """One of a rank's reports, as packed SQLite.

    Raises:
        subprocess.CalledProcessError: There is no such report, or the tool could not read it.
    """
    numbered = report.with_name(f"{report.name}.{number}.nsys-rep")
    name = numbered if numbered.exists() else report.with_name(f"{report.name}.nsys-rep")
    database = report.with_name(f"{report.name}.{number}.sqlite")
    command = [tool(), "export", "--type=sqlite", *BLOBS, "--force-overwrite=true", f"--output={database}", str(name)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    strip_identities(database)
    with database.open("rb") as plain, gzip.GzipFile(to, "wb", 9, mtime=0) as packed:
        shutil.copyfileobj(plain, packed)
    database.unlink()


def strip_identities(database: Path) -> None:
    """Leave what the job did and what is needed to read it: nothing of other processes, the machine or its names."""
    connection = sqlite3.connect(database)
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    streams = set()
    for column in ("filenameId", "contentId") if "ProcessStreams" in tables else ():
        streams |= _numbers(connection, "ProcessStreams", column)
    for table in tables & set(DROPPED):
        connection.execute(f"DROP TABLE {table}")
    for table, patterns in KEPT.items():
        if table in tables:
            names = " AND ".join(["name NOT LIKE ? ESCAPE '!'"] * len(patterns))
            variables = " AND ".join(["value NOT LIKE ?"] * len(KEPT_VARIABLES))
            wanted = (*patterns, *(f"{variable}%" for variable in KEPT_VARIABLES))
            rest = f"{names} AND NOT (name LIKE '%ENVIRONMENT!_VARIABLE' ESCAPE '!' AND NOT ({variables}))"
            connection.execute(f"DELETE FROM {table} WHERE {rest}", wanted)
    foreign = set()
    if "ThreadNames" in tables:
        # Threads of the job are those of processes that call CUDA.
        mine = _numbers(connection, "CUPTI_ACTIVITY_KIND_RUNTIME", "globalTid / 0x1000000")
        rows = connection.execute("SELECT DISTINCT globalTid / 0x1000000, nameId FROM ThreadNames").fetchall()
        foreign = {name for process, name in rows} - {name for process, name in rows if process in mine}
        kept = ", ".join(map(str, mine)) or "NULL"
        connection.execute(f"DELETE FROM ThreadNames WHERE globalTid / 0x1000000 NOT IN ({kept})")
    if "PROCESSES" in tables:
        connection.execute("DELETE FROM PROCESSES WHERE name NOT LIKE 'python%'")
    for key, value in connection.execute("SELECT id, value FROM StringIds").fetchall():
        # An environment is one string of variables, each ended by a NUL.
        hidden = key in foreign | streams or "\0" in value
        clean = "" if hidden else without_host(value)
        if clean != value:
            connection.execute("UPDATE StringIds SET value = ? WHERE id = ?", (clean, key))
    for table in tables & {"TARGET_INFO_GPU"}:
        uuid, bus = "printf('GPU-00000000-0000-0000-0000-%012d', id)", "printf('0000:%02x:00.0', id)"
        connection.execute(f"UPDATE {table} SET uuid = {uuid}, busLocation = {bus}")
    connection.commit()
    connection.execute("VACUUM")
    connection.close()


def without_host(text: str) -> str:
    """A text without the name of the machine as a word of its own: a short name may well be part of other words."""
    return re.sub(rf"\b{re.escape(socket.gethostname())}\b", PLACEHOLDER, text)


def _numbers(connection: sqlite3.Connection, table: str, column: str) -> set[int]:
    return {number for (number,) in connection.execute(f"SELECT DISTINCT {column} FROM {table}")}
