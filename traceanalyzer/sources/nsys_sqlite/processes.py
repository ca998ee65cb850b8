"""The tables of processes and threads: those that stored events belong to, with the names that the file gives them.

PROCESSES and ThreadNames list every process of the machine when the scheduler or CPU samples were recorded. What no
stored event refers to is left out.
"""

import numpy as np

from traceanalyzer.sources.nsys_sqlite.capture import Capture
from traceanalyzer.sources.nsys_sqlite.database import NULL
from traceanalyzer.sources.nsys_sqlite.nvtx import NvtxNames
from traceanalyzer.sources.nsys_sqlite.ranks import Ranks

_PID_MASK = ~0xFFFFFF


def write_processes(capture: Capture, ranks: Ranks) -> None:
    """Write the table `processes`."""
    owners = {t & _PID_MASK for t in capture.global_threads | capture.global_processes if t != NULL}
    by_number = {capture.process_of(g): g for g in sorted(owners)}
    names: dict[int, str] = {}
    for global_pid, name in capture.database.rows("PROCESSES", "globalPid", "name"):
        if isinstance(global_pid, int) and isinstance(name, str) and global_pid & _PID_MASK in owners:
            # The folder of an executable is nobody's business.
            names[capture.process_of(global_pid)] = name.replace("\\", "/").rsplit("/", 1)[-1]
    numbers = sorted(by_number)
    known = [ranks.of_process.get(n) for n in numbers]
    missing = [k is None for k in known]
    capture.write(
        "processes",
        {
            "process": numbers,
            "name": [capture.names.code(names.get(n)) for n in numbers],
            "rank": np.ma.masked_array(np.array([0 if k is None else k[0] for k in known], np.int32), missing),
            "rank_source": np.ma.masked_array(np.array([0 if k is None else k[1] for k in known], np.uint8), missing),
        },
    )


def write_threads(capture: Capture, nvtx: NvtxNames) -> None:
    """Write the table `threads`; a thread that was renamed has all of its names."""
    owners = {t & _PID_MASK for t in capture.global_threads | capture.global_processes if t != NULL}
    names: dict[int, list[str]] = {t: [] for t in capture.global_threads if t != NULL}
    for block in capture.database.blocks("ThreadNames", ("nameId", "globalTid")):
        for name_id, thread in zip(block["nameId"].tolist(), block["globalTid"].tolist(), strict=True):
            if thread != NULL and thread & _PID_MASK in owners:
                name = capture.names.text(name_id)
                known = names.setdefault(thread, [])
                if name and name not in known:
                    known.append(name)
    for thread, more in nvtx.threads.items():
        if thread & _PID_MASK in owners:
            known = names.setdefault(thread, [])
            known += [name for name in more if name not in known]
    threads = sorted(names)
    ids = np.array(threads, np.int64)
    capture.write(
        "threads",
        {
            "process": capture.process(ids),
            "thread": ids & 0xFFFFFF,
            "name": [capture.names.code(", ".join(names[t]) or None) for t in threads],
        },
    )
