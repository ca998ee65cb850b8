"""Reads reports of ncu (.ncu-rep, .nsight-cuprof-report) through NVIDIA's package `ncu-report`."""

import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

from traceanalyzer.errors import SourceError, TraceAnalyzerError
from traceanalyzer.schema.sink import Sink
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.ncu_csv.container import Extent, extent_of
from traceanalyzer.sources.ncu_csv.devices import Devices
from traceanalyzer.sources.ncu_csv.launches import Launch, in_base_units
from traceanalyzer.sources.ncu_csv.nvtx import DEFAULT_DOMAIN, joined
from traceanalyzer.sources.ncu_csv.output import write_launch, write_metric, write_rule
from traceanalyzer.sources.ncu_csv.quiet import quiet_stderr
from traceanalyzer.sources.ncu_csv.recognise import why_not
from traceanalyzer.sources.row_batches import Batches

_LINK = re.compile(r"@(?:section|url|source|sass|ptx|metric)?:[^@]*?:?([^:@]*)@")
_TYPES = {1: "INF", 2: "OPT", 3: "WRN", 4: "ERR"}
_SPEEDUP_TYPES = {1: "local", 2: "global"}


def read_report(file: TraceFile, sink: Sink) -> None:
    """Read a report. Raises `SourceError` where the package is missing, or cannot read the file."""
    try:
        module = _package()
    except ImportError as error:
        raise SourceError(file.path, why_not(file) or "cannot be read") from error
    with file.on_disk() as unpacked:
        with unpacked.open("rb") as content:
            extent = extent_of(content)
        with _whole_part(file, unpacked, extent) as path, quiet_stderr():
            try:
                _Report(module, sink).read(_load(module, path), extent)
            except (TraceAnalyzerError, OSError, MemoryError):
                raise
            except Exception as error:  # the package's own errors have no common class, and damage looks like any
                why = f"a damaged report, or one that the package ncu-report cannot read ({_first_line(error)})"
                raise SourceError(file.path, why) from error
    if file.damage:
        sink.note("compression_damaged", f"The file could not be unpacked to its end: {file.damage}.")


@contextmanager
def _whole_part(file: TraceFile, path: Path, extent: Extent) -> Iterator[Path]:
    """The report up to the end of its last whole block: in a copy, where that is not its end."""
    if extent.whole:
        yield path
        return
    if not extent.whole_bytes:
        raise SourceError(file.path, "a report of ncu that ends within its header")
    with tempfile.TemporaryDirectory(prefix="traceanalyzer-") as folder:
        copy = Path(folder) / "whole"
        shutil.copyfile(path, copy)
        os.truncate(copy, extent.whole_bytes)
        yield copy


def _package() -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the generated bindings
        import ncu_report
    module: ModuleType = ncu_report
    return module


def _load(module: ModuleType, path: Path) -> Any:
    context = module.load_report(str(path))
    if context is None:
        raise ValueError("it holds no report")
    return context


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


class _Report:
    def __init__(self, module: ModuleType, sink: Sink) -> None:
        self._module, self._sink = module, sink
        self._batches = Batches(sink)
        self._devices = Devices()

    def read(self, context: Any, extent: Extent) -> None:
        number = 0
        for table in range(context.num_ranges()):
            profiled = context.range_by_idx(table)
            for position in range(profiled.num_actions()):
                self._take(profiled.action_by_idx(position), number, table)
                number += 1
        self._devices.write(self._batches)
        self._batches.flush()
        self._sink.facts.metadata |= {"layouts": ["report"], "tables": context.num_ranges()}
        self._sink.facts.whole = extent.whole
        self._say(extent)

    def _say(self, extent: Extent) -> None:
        note, read = self._sink.note, self._batches.counts["kernel_profiles"]
        if not extent.whole:
            text = "The report ends within a launch, or is damaged there: what came after its last whole part is lost."
            note("truncated", text)
        if extent.launches > read:
            note("launches_damaged", "Launches that cannot be read were left out.", extent.launches - read)
        if not read:
            empty = extent.whole and not extent.launches
            note("no_launches", "The report holds no profiled launch." if empty else "No launch of it is left.")

    def _take(self, action: Any, number: int, table: int) -> None:
        launch = Launch(number, table, number, None, action.name(action.NameBase_DEMANGLED), exact=True)
        if not launch.kernel and not action.metric_names():
            return  # the library could make nothing of it
        launch.nvtx = joined(_ranges(action))
        metrics = [(name, action.metric_by_name(name)) for name in action.metric_names()]
        found = {name: metric for name, metric in metrics if metric is not None}
        capability = [found.get(f"device__attribute_compute_capability_{part}") for part in ("major", "minor")]
        if None not in capability:
            launch.compute_capability = ".".join(str(int(m.as_double())) for m in capability if m is not None)
        if device := found.get("launch__device_id") or found.get("device__attribute_device_index"):
            launch.typed["device"] = int(device.as_double())
        for name, metric in found.items():
            value, text = self._value(metric)
            scaled, base = in_base_units(value or Decimal(0), metric.unit())
            if value is not None:
                value = scaled
                launch.take(name, base, value)
            if name.startswith("device__attribute_"):
                self._devices.take(launch.device, name, value, text)
            write_metric(self._batches, launch, (None, None), name, (base, metric.unit()), value, text)
        self._take_rules(action, launch)
        self._devices.see(launch.device, launch.compute_capability)
        write_launch(self._batches, launch)

    @staticmethod
    def _value(metric: Any) -> tuple[Decimal | None, str | None]:
        value = metric.value()
        if isinstance(value, str):
            return None, value or None
        if value is None or not metric.has_value():
            return None, None
        number = Decimal(str(value))
        return (number, None) if number.is_finite() else (None, None)

    def _take_rules(self, action: Any, launch: Launch) -> None:
        for result in action.rule_results_as_dicts():
            message = result.get("rule_message")
            if not message:
                continue
            rule = str(result.get("rule_identifier") or result.get("name") or "")
            kind, title = _TYPES.get(message.get("type", 0)), message.get("title") or None
            text = _plain(message.get("message") or "")
            launch.judge(rule, kind, text)
            speedup = result.get("speedup_estimation") or {}
            estimate = (_SPEEDUP_TYPES.get(speedup.get("type", 0)), speedup.get("speedup"))
            section = result.get("section_identifier") or None
            write_rule(self._batches, launch, (section, rule, title), kind, text, estimate)


def _plain(text: str) -> str:
    """A message without the marks of its links: `@section:LaunchStats:Launch Statistics@` is its last part."""
    return _LINK.sub(r"\1", text)


def _ranges(action: Any) -> list[str]:
    """Names of the NVTX ranges around a launch: those of the process first, then the nested ones, outermost first."""
    state = action.nvtx_state()
    if state is None:
        return []
    process, nested = [], []
    for number in state.domains():
        domain = state.domain_by_id(number)
        prefix = "" if domain.name() in ("", DEFAULT_DOMAIN) else f"{domain.name()}:"
        process += [prefix + name for name in domain.start_end_ranges()]
        nested += [prefix + name for name in domain.push_pop_ranges()]
    return process + nested
