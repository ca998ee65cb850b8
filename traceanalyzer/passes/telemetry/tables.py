"""The tables of what telemetry says: parts of the answer of `metrics`."""

from traceanalyzer.passes.answer import TableSpec
from traceanalyzer.passes.columns import CAPTURE, DEVICE
from traceanalyzer.schema.column import Column, Type
from traceanalyzer.units import Unit

_INSTANCE = Column(
    "instance", Type.TEXT, "Part of the device that is measured, such as a MIG instance; null: all of it."
)
_SOURCE = Column("source", Type.TEXT, "Where it comes from: query_gpu, dmon, dcgm ...")
_NAME = Column("name", Type.TEXT, "Name of the metric, as the source has it.")
_SAMPLES = Column("samples", Type.INT64, "Samples.", Unit.COUNT)
_TEXT = Column("text", Type.TEXT, "The same in a sentence.")

DEVICES = TableSpec(
    "telemetry",
    "Each device and what telemetry measured of it, under one name whatever the source calls it.",
    (
        CAPTURE,
        DEVICE,
        _INSTANCE,
        Column(
            "metric",
            Type.TEXT,
            "utilization (a kernel ran: no measure of how much of the GPU it used), memory_activity (traffic to device"
            " memory, no bandwidth), engine_active, sm_active, sm_occupancy, tensor_active, dram_active, power,"
            " power_limit, sm_clock, sm_clock_max, memory_clock, temperature, memory_temperature, memory_used,"
            " memory_total, pcie_rx, pcie_tx, nvlink_rx, nvlink_tx.",
        ),
        Column("unit", Type.TEXT, "Unit of mean, min and max."),
        Column("mean", Type.FLOAT64, "Mean of the samples."),
        Column("min", Type.FLOAT64, "Smallest sample."),
        Column("max", Type.FLOAT64, "Largest sample."),
        _SAMPLES,
        Column("missing", Type.INT64, "Samples for which the source had no value.", Unit.COUNT),
        Column("interval_ns", Type.INT64, "Mean time from a sample to the next; null without times.", Unit.NS),
        _SOURCE,
        _NAME,
    ),
    cut=False,
)
PATTERNS = TableSpec(
    "patterns",
    "How the use of each device goes on in time: with a period, steadily, in one stretch.",
    (
        CAPTURE,
        DEVICE,
        _INSTANCE,
        Column("metric", Type.TEXT, "Metric that is looked at: utilization, or what stands for it, and power."),
        Column(
            "pattern",
            Type.TEXT,
            "pulsed (swings with a period), steady high, steady low, steady, idle, or irregular.",
        ),
        Column("period_ns", Type.INT64, "Period; null without one, or without times.", Unit.NS),
        Column("period_samples", Type.FLOAT64, "The same in samples."),
        Column("periods", Type.FLOAT64, "Periods that were seen."),
        Column("correlation", Type.FLOAT64, "Correlation of the series with itself one period later."),
        Column("duty", Type.FLOAT64, "Of whole periods the share near the high level.", Unit.SHARE),
        Column(
            "low", Type.FLOAT64, "Low level: median of the lower of two groups; of steady series the tenth percentile."
        ),
        Column("high", Type.FLOAT64, "High level; of steady series the ninetieth percentile."),
        Column("active_share", Type.FLOAT64, "Share of the samples between the first and the last use.", Unit.SHARE),
        _SAMPLES,
        _SOURCE,
        _TEXT,
    ),
    cut=False,
)
THROTTLING = TableSpec(
    "throttling",
    "Why clocks were not higher, as the device states it: a row a reason that was seen.",
    (
        CAPTURE,
        DEVICE,
        _INSTANCE,
        Column(
            "reason",
            Type.TEXT,
            "gpu_idle, applications_clocks_setting, sw_power_cap, hw_slowdown, sync_boost, sw_thermal_slowdown,"
            " hw_thermal_slowdown, hw_power_brake_slowdown, display_clock_setting, or low_clock: well under the"
            " highest clock while busy, and no reason is stated.",
        ),
        Column("harmful", Type.BOOL, "False for what is a setting, or no more than idleness; null for low_clock."),
        Column("busy_share", Type.FLOAT64, "Share of the samples while the device was busy.", Unit.SHARE),
        Column(
            "share", Type.FLOAT64, "Share of all samples; of counters the growth as a share of the time.", Unit.SHARE
        ),
        Column("busy_samples", Type.INT64, "Samples while the device was busy.", Unit.COUNT),
        _SAMPLES,
        Column("throttled_ns", Type.INT64, "Growth of the device's own counter within the file.", Unit.NS),
        Column("clock_mhz", Type.FLOAT64, "Median clock of the multiprocessors meanwhile (MHz)."),
        Column("max_clock_mhz", Type.FLOAT64, "Highest clock that the file states or shows (MHz)."),
        _SOURCE,
        _NAME,
        _TEXT,
    ),
    cut=False,
)
ERRORS = TableSpec(
    "errors",
    "Errors that devices counted: a row a counter that is not zero.",
    (
        CAPTURE,
        DEVICE,
        _INSTANCE,
        Column(
            "error",
            Type.TEXT,
            "xid, ecc_uncorrectable, ecc_correctable, row_remap_failure, row_remap_pending, rows_remapped,"
            " pages_retired, page_retirement_pending, nvlink_replay, nvlink_crc, nvlink_recovery, pcie_replay.",
        ),
        Column("serious", Type.BOOL, "True where it is a reason to look at the device before anything else."),
        Column("first", Type.FLOAT64, "First reading."),
        Column("last", Type.FLOAT64, "Last reading: of xid the code of the last error, else a count."),
        Column("growth", Type.FLOAT64, "Growth within the file; null for one reading, and for codes."),
        Column("changed_ns", Type.INT64, "First instant with a new reading, on the file's own clock.", Unit.NS),
        _SAMPLES,
        _SOURCE,
        _NAME,
        _TEXT,
    ),
    cut=False,
)
PROCESSES = TableSpec(
    "processes",
    "Processes on each device, and what they use.",
    (
        CAPTURE,
        DEVICE,
        Column("process", Type.INT64, "Its pid, as the host or container that was asked numbers it."),
        Column("process_name", Type.TEXT, "Name of the program; pmon cuts it to 15 characters."),
        Column("traced", Type.BOOL, "Whether it is a process of the run's trace; null where that is not known."),
        Column("utilization_pct", Type.FLOAT64, "Mean of its samples with a value.", Unit.PERCENT),
        Column("memory_activity_pct", Type.FLOAT64, "The same for traffic to device memory.", Unit.PERCENT),
        Column("memory_bytes", Type.INT64, "Most memory of the device that it held.", Unit.BYTES),
        _SAMPLES,
        Column("first_ns", Type.INT64, "First sample, on the file's own clock.", Unit.NS),
        Column("last_ns", Type.INT64, "Last sample.", Unit.NS),
        _SOURCE,
    ),
)
ALIGNMENT = TableSpec(
    "alignment",
    "Telemetry beside the trace of the same run: which offset puts both on one clock, and whether they agree.",
    (
        CAPTURE,
        DEVICE,
        Column("trace", Type.INT32, "Capture of the trace: `captures.capture`."),
        Column("trace_device", Type.INT32, "Device of the trace."),
        Column("matched_by", Type.TEXT, "uuid, or device: both call it by the same number."),
        Column("state", Type.TEXT, "agree, disagree, or could not look."),
        Column(
            "offset_ns", Type.INT64, "Added to the telemetry's clock this gives Unix time; null if unknown.", Unit.NS
        ),
        Column("overlap_ns", Type.INT64, "Time of the trace's operations that telemetry covers.", Unit.NS),
        Column("utilization_pct", Type.FLOAT64, "Mean utilization of its samples there.", Unit.PERCENT),
        Column("busy_pct", Type.FLOAT64, "Time there in which the trace has an operation.", Unit.PERCENT),
        Column("samples", Type.INT64, "Samples there.", Unit.COUNT),
        _TEXT,
    ),
    cut=False,
)
TABLES = (DEVICES, PATTERNS, THROTTLING, ERRORS, PROCESSES, ALIGNMENT)
