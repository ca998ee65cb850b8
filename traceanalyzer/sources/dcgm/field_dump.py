"""Long tables of field values with their times, as small programs on DCGM's API write them."""

from traceanalyzer.schema.sink import Sink
from traceanalyzer.sources.dcgm.fields import RATIO, unit_of
from traceanalyzer.sources.dcgm.values import NotAValueError, value_of
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.telemetry import Sample, Samples, epoch_ns
from traceanalyzer.sources.text_lines import Lines

COLUMNS = ("gpuid", "timestampus", "field", "values")


def read_field_dump(file: TraceFile, sink: Sink) -> int:
    """Write every sample of a table with the columns GPUId, TimeStampUs, Field and Values; returns how many."""
    samples, lines = Samples(sink), Lines(file)
    devices: set[int] = set()
    torn = above_one = 0
    where: list[int] = []
    held: list[str] | None = None
    for line in lines:
        cells = [cell.strip().strip('"') for cell in line.split(",")]
        if not where:
            names = [cell.lower() for cell in cells]
            where = [names.index(name) for name in COLUMNS if name in names]
            where = where if len(where) == len(COLUMNS) else []
            continue
        if held is not None:
            ratio = _write(held, samples, devices)
            torn += ratio is None
            above_one += bool(ratio)
        held = [cells[k] for k in where] if len(cells) > max(where) else []
    if held is not None and lines.cut:
        sink.facts.whole = False
        sink.note("truncated", "The last row has no end and was left out: a part of it may be missing.")
    elif held is not None:
        ratio = _write(held, samples, devices)
        torn += ratio is None
        above_one += bool(ratio)
    for device in sorted(devices):
        samples.device(device)
    samples.finish()
    if samples.count:
        sink.facts.utc_offset_ns = 0
    if torn:
        sink.note("torn_lines", "Rows without a GPU, a time and a number were left out.", torn)
    if above_one:
        sink.note("ratio_above_one", "Ratios above 1 are kept as they were told.", above_one)
    return samples.count


def _write(cells: list[str], samples: Samples, devices: set[int]) -> bool | None:
    """Write a row; whether it is a ratio above 1, None where it is no whole row."""
    if len(cells) != len(COLUMNS):
        return None
    gpu, time, name, text = cells
    try:
        value = value_of(text)
    except NotAValueError:
        return None
    instant = epoch_ns(time)
    if instant is None or not name or not (gpu.isascii() and gpu.isdigit() and len(gpu) < 9):
        return None
    devices.add(int(gpu))
    unit = unit_of(name)
    samples.add(Sample("dcgm", name, value, unit, int(gpu), t_ns=instant))
    return unit == RATIO and value is not None and value > 1
