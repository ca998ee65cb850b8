"""Memory: how much the devices hold over time, what holds it at the peak, and what grows from step to step."""

from collections.abc import Iterator

from traceanalyzer.passes.allocations.curve import load_events
from traceanalyzer.passes.allocations.growth import devices_with_memory
from traceanalyzer.passes.allocations.report import DeviceReport, MemoryGrowth, Row
from traceanalyzer.passes.allocations.tables import TABLES
from traceanalyzer.passes.answer import Answer, Finding, Frame
from traceanalyzer.passes.gaps import no_timeline
from traceanalyzer.passes.idle.stacks import StackTree
from traceanalyzer.passes.scope import Scope

__all__ = ["TABLES", "MemoryGrowth", "memory", "memory_growth"]


def memory_growth(scope: Scope) -> list[MemoryGrowth]:
    """Growth of each selected device of which allocations, and at least one counted step, were recorded."""
    out = []
    for report in _reports(scope):
        growth = report.growth(report.growing())
        if growth is not None:
            out.append(growth)
    return out


def memory(scope: Scope) -> Answer:
    """Tables `curve`, `peak`, `growth`, `growing` and `memory` of the selected devices. Sizes in bytes, exact.

    Of torch.profiler memory is what its caching allocator has in use, by the totals that it recorded; where it recorded
    none, the differences are summed up from the least level that is possible, and a warning says so. Of nsys it is
    what processes took from the driver. Steps and windows select instants; growth always goes by whole steps.
    """
    rows: dict[str, list[Row]] = {spec.name: [] for spec in TABLES}
    findings: list[Finding] = []
    warnings = list(scope.warnings)
    notes = [scope.note()]
    for report in _reports(scope):
        left = report.growing()
        rows["curve"] += report.curve(scope.selection.top)
        rows["peak"] += report.peak()
        rows["growth"] += report.steps()
        rows["growing"] += [report.growing_row(held) for held in left]
        rows["memory"].append(report.summary())
        findings += report.findings(left)
        warnings += report.warnings()
        notes += report.notes(scope.selection.top)
    rows["peak"].sort(key=lambda r: (-r[5], r[0], r[2], r[3] != "peak", str(r[4])))
    rows["growing"].sort(key=lambda r: (-r[3], r[0], r[2], str(r[7])))
    if not rows["memory"]:
        warnings.append(
            no_timeline(scope)
            or "no allocations on a device were recorded in what is selected; torch.profiler records them with"
            " profile_memory=True, nsys with --cuda-memory-usage=true"
        )
    tables = {spec.name: Frame.of_rows(spec, rows[spec.name]) for spec in TABLES}
    return Answer("memory", tables, findings, warnings, default_table="curve", notes=list(dict.fromkeys(notes)))


def _reports(scope: Scope) -> Iterator[DeviceReport]:
    tree: StackTree | None = None
    for device in devices_with_memory(scope):
        events = load_events(scope, device.capture, device.device)
        if len(events):
            tree = tree or StackTree(scope)
            report = DeviceReport(scope, tree, device, events)
            if report.selected:
                yield report
