"""What the file says of itself: versions, host, clock, settings of the capture, the profiler's own warnings."""

import re
from collections import Counter
from typing import Any

from traceanalyzer.schema.kinds import Severity
from traceanalyzer.sources.nsys_sqlite.capture import Capture
from traceanalyzer.sources.nsys_sqlite.ranks import Ranks

_KEPT_VARIABLES = re.compile(r"(NCCL|CUDA|PYTORCH|TORCH)_[A-Z0-9_]+|OMP_NUM_THREADS")
_SECRET_NAME = re.compile(r"TOKEN|SECRET|PASS|CRED|AUTH|API|KEY|USER|HOME|PATH|DIR|FILE|HOST|ADDR")
_PLAIN_VALUE = re.compile(r"[A-Za-z0-9_.,:;=+\- ^]{0,64}")
_LONG_WORD = re.compile(r"[A-Za-z0-9+=_\-]{24,}")
# Settings of the capture that tell what can be in the file. Values are numbers, booleans or words of nsys itself.
_SETTINGS = (
    "CUDA_GRAPH_TRACE_OPTIONS:MODE",
    "CUDA_SKIP_SOME_API_CALLS",
    "COLLECT_CUDA_TRACE",
    "COLLECT_NVTX_TRACE",
    "COLLECT_OSRT_TRACE",
    "COLLECT_GPU_MEMORY_USAGE",
    "LINUX_PERF_OPTIONS:COLLECT_IP_BACKTRACE_SAMPLES",
    "LINUX_PERF_OPTIONS:COLLECT_CPU_CTXSW_TRACE",
    "LINUX_PERF_OPTIONS:SAMPLING_PERIOD",
    "LINUX_PERF_OPTIONS:SAMPLES_PER_BACKTRACE",
    "PYTHON_BACKTRACE_SAMPLING_OPTIONS:COLLECT_SAMPLES",
    "PYTHON_BACKTRACE_SAMPLING_OPTIONS:SAMPLING_RATE",
)
_MACHINE = {
    "CpuCores": "cpu_cores",
    "CpuDescription": "cpu",
    "OsDescription": "os",
    "NvDriverVersion": "driver_version",
    "CudaDriverVersion": "cuda_driver_version",
}
"""Facts of the host that are kept, by nsys's names for them."""
_LONGEST_FACT = 80
_SETTING_VALUE = re.compile(r"[A-Za-z0-9_.\-]{1,40}")
_FOLDERS = re.compile(r"(?:/[^\s/'\":,]+)+/")
_STANDING = re.compile(r"Not all .* events might have been collected")
_HARMLESS = re.compile(
    r"No .* events collected\.|Scheduling information is absent|perf event paranoid|Unable to collect CPU"
)
_LONGEST_MESSAGE = 240


def read_metadata(capture: Capture) -> dict[str, str]:
    """Set the facts that need no events and return the environment of the launched process, for its rank alone."""
    database, facts = capture.database, capture.facts
    exported = _pairs(capture, "META_DATA_EXPORT") or _pairs(capture, "EXPORT_META_DATA")
    captured = _pairs(capture, "META_DATA_CAPTURE")
    facts.tool_version = captured.get("PRODUCT_VERSION") or exported.get("EXPORT_PRODUCT_VERSION")
    facts.format_version = exported.get("EXPORT_SCHEMA_VERSION")
    host = [
        v for (v,) in database.rows("TARGET_INFO_SYSTEM_ENV", "value", where="name = 'Hostname'") if isinstance(v, str)
    ]
    facts.host = next((v for v in host if v), None)
    epoch = [v for (v,) in database.rows("TARGET_INFO_SESSION_START_TIME", "utcEpochNs") if isinstance(v, int)]
    facts.utc_offset_ns = next(iter(epoch), None)
    _keep_machine(capture)
    environment = _environment(capture)
    _keep_settings(capture, captured, environment)
    shift = exported.get("EXPORT_PARAM_TIME_SHIFT", "0")
    if exported.get("EXPORT_PARAM_TIME_NORMALIZE") == "true" or shift.lstrip("-").strip("0"):
        facts.utc_offset_ns = None
        capture.note(
            "times_shifted",
            "The export shifted all times, so they cannot be placed in Unix time.",
            severity=Severity.INFO,
        )
    return environment


def _keep_machine(capture: Capture) -> None:
    """Keep what the host is: processors, system, driver. Names of users and folders are not among that."""
    found = {
        _MACHINE[name]: value
        for name, value in _pairs(capture, "TARGET_INFO_SYSTEM_ENV").items()
        if name in _MACHINE and 0 < len(value) <= _LONGEST_FACT
    }
    if found:
        capture.facts.metadata["machine"] = found


def _pairs(capture: Capture, table: str) -> dict[str, str]:
    return {
        name: value
        for name, value in capture.database.rows(table, "name", "value")
        if isinstance(name, str) and isinstance(value, str)
    }


def _environment(capture: Capture) -> dict[str, str]:
    """Variables of the launched process, as `NAME="value"` texts in the meta data."""
    out = {}
    where = "name LIKE '%ENVIRONMENT_VARIABLE'"
    for (text,) in capture.database.rows("META_DATA_CAPTURE", "value", where=where):
        if isinstance(text, str) and "=" in text:
            name, value = text.split("=", 1)
            out[name] = value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value
    return out


def _keep_settings(capture: Capture, captured: dict[str, str], environment: dict[str, str]) -> None:
    """Keep what is safe: settings by an allow-list, variables by name and by the look of their values."""
    kept = {
        name: value for name, value in environment.items() if capture.sink.keep_environment or _is_safe(name, value)
    }
    if kept:
        capture.facts.metadata["environment"] = kept
    settings: dict[str, str] = {}
    for name, value in captured.items():
        setting = re.sub(r"^PROCESS_\d+:", "", name)
        if setting in _SETTINGS and _SETTING_VALUE.fullmatch(value):
            settings.setdefault(setting, value)
    if settings:
        capture.facts.metadata["settings"] = settings


def _is_safe(name: str, value: str) -> bool:
    return bool(
        _KEPT_VARIABLES.fullmatch(name)
        and not _SECRET_NAME.search(name)
        and _PLAIN_VALUE.fullmatch(value)
        and not _LONG_WORD.search(value)
    )


def finish_facts(capture: Capture, ranks: Ranks, communicating: set[int]) -> None:
    """Set the facts that follow from the events: extent, ranks. `communicating` are the processes that use NCCL."""
    facts = capture.facts
    if capture.duration is not None:
        facts.start_ns, facts.end_ns = 0, capture.duration
    else:
        facts.start_ns, facts.end_ns = capture.first, capture.last
    facts.world_size = ranks.world_size
    # Without any GPU work the processes that have a rank, or that communicate, are those of the job.
    working = capture.gpu_processes or set(ranks.of_process) or communicating
    facts.several_ranks = len(working) > 1
    if len(working) == 1:
        facts.rank, facts.rank_source = ranks.of_process.get(next(iter(working)), (None, None))
    if capture.machines > 1:
        capture.note(
            "several_machines",
            "The report holds several machines: numbers of processes and devices of all but the first were raised to"
            " keep them apart.",
            capture.machines,
            Severity.INFO,
        )


def read_diagnostics(capture: Capture) -> None:
    """Pass on the warnings and errors of the profiler, without the folders that they mention."""
    messages: Counter[tuple[int, str]] = Counter()
    for severity, text in capture.database.rows("DIAGNOSTIC_EVENT", "severity", "text", where="severity IN (2, 3)"):
        if isinstance(text, str) and not _STANDING.search(text):
            messages[severity, _shortened(text)] += 1
    for (severity, text), count in messages.items():
        level = Severity.INFO if _HARMLESS.search(text) else Severity.WARNING if severity == 2 else Severity.ERROR
        capture.note("profiler_message", f"The profiler says: {text}", count, level)


def _shortened(text: str) -> str:
    line = _FOLDERS.sub("", " ".join(text.split()))
    return line if len(line) <= _LONGEST_MESSAGE else line[: _LONGEST_MESSAGE - 4].rsplit(" ", 1)[0] + " ..."


def note_lost_tables(capture: Capture, damage: str | None) -> None:
    """Say which tables could not be read whole, and mark the capture."""
    lost: dict[str, Any] = capture.database.lost
    if capture.database.cut or damage:
        capture.facts.whole = False
        capture.note("file_truncated", f"The file ends early ({damage or 'it is shorter than its header says'}).")
    # A file that is cut loses many tables for one reason: that is one sentence, and one of those that only name kinds.
    damaged: dict[tuple[str, str], list[str]] = {}
    for table, message in sorted(lost.items()):
        capture.facts.whole = False
        missing = "names of kinds" if table.startswith("ENUM_") else "events"
        damaged.setdefault((missing, str(message)), []).append(table)
    for (missing, message), tables in damaged.items():
        which = f"The table {tables[0]}" if len(tables) == 1 else f"{len(tables)} tables ({', '.join(tables)})"
        capture.note("table_damaged", f"{which} could not be read whole ({message}): {missing} are missing.")
