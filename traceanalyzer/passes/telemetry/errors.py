"""Errors that devices counted: XID, memory (ECC, remapped rows, retired pages), NVLink, PCIe."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from traceanalyzer.passes.answer import Finding
from traceanalyzer.passes.telemetry.names import dcgm_field, plain
from traceanalyzer.passes.telemetry.series import Place, Raw, Telemetry, join


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of error. `at_once` says that a count that is not zero is serious, else only one that grows is.

    `growing` says whether growth is.
    """

    words: str
    at_once: bool = False
    growing: bool = True


KINDS = {
    "xid": _Kind("error of the driver", at_once=True),
    "ecc_uncorrectable": _Kind("memory errors that could not be corrected", at_once=True),
    "ecc_correctable": _Kind("memory errors that were corrected", growing=False),
    "row_remap_failure": _Kind("a row of memory could not be remapped", at_once=True),
    "row_remap_pending": _Kind("rows of memory wait to be remapped: the GPU needs a reset", at_once=True),
    "rows_remapped": _Kind("rows of memory were remapped after uncorrectable errors"),
    "rows_remapped_correctable": _Kind("rows of memory were remapped after correctable errors", growing=False),
    "pages_retired": _Kind("pages of memory were retired"),
    "page_retirement_pending": _Kind("pages of memory wait to be retired: the GPU needs a reset", at_once=True),
    "nvlink_replay": _Kind("NVLink sent data again"),
    "nvlink_crc": _Kind("NVLink received data with wrong checksums"),
    "nvlink_recovery": _Kind("NVLink links had to recover"),
    "pcie_replay": _Kind("PCIe sent data again"),
}
XID = {
    13: "exception of the graphics engine, usually of the program that ran",
    31: "memory page fault, usually of the program that ran",
    32: "damaged command stream",
    38: "driver firmware error",
    43: "the GPU stopped processing, usually an error of the program",
    45: "preemptive cleanup after an earlier error",
    48: "double-bit memory error",
    61: "internal microcontroller breakpoint or warning",
    62: "internal microcontroller halt",
    63: "a row of memory was remapped, or a page retired",
    64: "a row of memory could not be remapped, or a page not be retired",
    68: "video processor exception",
    69: "exception of the graphics engine class",
    74: "NVLink error",
    79: "the GPU has fallen off the bus",
    92: "many single-bit memory errors",
    94: "contained memory error: the program that used it failed",
    95: "uncontained memory error: the GPU needs a reset",
    109: "context switch timeout",
    119: "the GPU's system processor did not answer",
    120: "error of the GPU's system processor",
    140: "memory error that could not be recovered",
}
"""What common codes mean. Source: NVIDIA, "Xid Errors" (docs.nvidia.com/deploy/xid-errors)."""

_FIELDS = {
    202: "pcie_replay",
    230: "xid",
    310: "ecc_correctable",
    311: "ecc_uncorrectable",
    312: "ecc_correctable",
    313: "ecc_uncorrectable",
    390: "pages_retired",
    391: "pages_retired",
    392: "page_retirement_pending",
    393: "rows_remapped",
    394: "rows_remapped_correctable",
    395: "row_remap_failure",
    396: "row_remap_pending",
    409: "nvlink_crc",
    419: "nvlink_crc",
    429: "nvlink_replay",
    439: "nvlink_recovery",
}
_PLAIN = (
    ("xid", r"xid_errors?|xid"),
    ("ecc_uncorrectable", r"ecc_.*(uncorrect|double_bit).*|dbecc|volatile_uncorr_ecc|gpu_uncorrected_ecc"),
    ("ecc_correctable", r"ecc_.*(correct|single_bit).*|sbecc|gpu_corrected_ecc"),
    ("row_remap_failure", r"remapped_rows_(remapping_)?fail(ure)?(_occurred)?"),
    ("row_remap_pending", r"remapped_rows_(remapped_row_)?pending"),
    ("rows_remapped_correctable", r"remapped_rows_(remapped_row_)?corr(ectable)?(_error)?"),
    ("rows_remapped", r"remapped_rows_(remapped_row_)?unc(orr|orrectable)?(_error)?"),
    ("page_retirement_pending", r"retired_pages_pending\w*"),
    (
        "pages_retired",
        r"retired_pages_(sbe|dbe|single_bit_ecc(_count)?|double_bit(_ecc)?(_count)?)|retired_pages_\w*count",
    ),
    ("nvlink_replay", r"\w*nvlink\w*replay\w*|replay_errors?"),
    ("nvlink_recovery", r"\w*nvlink\w*recovery\w*|recovery_errors?"),
    ("nvlink_crc", r"\w*nvlink\w*crc\w*|crc_\w*errors?"),
    ("pcie_replay", r"pci_replays_since_reset|pci_replay_counter|pcie_replay\w*|pci"),
)
_NAMED = tuple((name, re.compile(pattern)) for name, pattern in _PLAIN)
_NO_COUNT = re.compile(r"ecc_mode|inforom|threshold|unrepairable|histogram|tlimit")
_EXPORTED_XID = re.compile(r"dcgm_exp_xid_errors_count", re.IGNORECASE)
_CODE = re.compile(r"XID (\d{1,4})")


@dataclass(frozen=True, slots=True)
class DeviceError:
    """An error that a device counted; `row` selects the row of table `errors` of the answer of `metrics` that shows it.

    `last` is the code of the last error for `xid`, else a count. `growth` is None for one reading, and for codes.
    """

    capture: int
    device: int
    instance: str | None
    error: str
    serious: bool
    first: float
    last: float
    growth: float | None
    changed_ns: int | None
    text: str
    table: str
    row: dict[str, object]


def error_of(source: str, name: str) -> str | None:
    """The kind of error that a metric counts; None where it counts none."""
    if _EXPORTED_XID.fullmatch(name):
        return "xid"
    field = dcgm_field(source, name)
    if field is not None:
        return _FIELDS.get(field.number)
    text = plain(name)
    if _NO_COUNT.search(text) or (text == "pci" and source != "dmon"):
        return None
    return next((kind for kind, pattern in _NAMED if pattern.fullmatch(text)), None)


@dataclass(frozen=True, slots=True)
class Counter:
    """A counter that is not zero."""

    raw: Raw
    error: str
    first: float
    last: float
    growth: float | None
    changed_ns: int | None
    samples: int

    @property
    def serious(self) -> bool:
        """Whether it is a reason to look at the device first."""
        kind = KINDS[self.error]
        return kind.at_once or (kind.growing and bool(self.growth))

    @property
    def text(self) -> str:
        """The row as a sentence."""
        if self.error == "xid":
            code = _CODE.search(self.raw.place.instance)
            number = int(code[1]) if code else int(self.last)
            meaning = XID.get(number, "see NVIDIA's list of Xid errors")
            return f"XID {number}: {meaning}" + ("" if code else " (the last one; it may be old)")
        words = KINDS[self.error].words
        if self.growth is None:
            return f"{words}: {self.last:,.0f} by now; one reading does not tell when"
        if not self.growth:
            return f"{words}: {self.last:,.0f} before the file began, none within it"
        return f"{words}: {self.growth:,.0f} within the file, {self.last:,.0f} in all"

    def row(self) -> tuple[object, ...]:
        """Its row of the table `errors`."""
        place = self.raw.place
        return (
            *(place.capture, place.device, place.instance or None, self.error, self.serious),
            *(self.first, self.last, self.growth, self.changed_ns, self.samples),
            *(self.raw.source, self.raw.name, self.text),
        )


def device_errors(counters: Sequence[Counter]) -> list[DeviceError]:
    """Errors that devices counted, those that matter most first; `serious` tells which are worth a verdict."""
    found = []
    for counter in counters:
        place = counter.raw.place
        error = DeviceError(
            capture=place.capture,
            device=place.device,
            instance=place.instance or None,
            error=counter.error,
            serious=counter.serious,
            first=counter.first,
            last=counter.last,
            growth=counter.growth,
            changed_ns=counter.changed_ns,
            text=counter.text,
            table="errors",
            row=counter.raw.selector(error=counter.error),
        )
        found.append(error)
    order = list(KINDS)
    return sorted(found, key=lambda e: (not e.serious, order.index(e.error), e.capture, e.device))


def error_findings(found: list[DeviceError]) -> list[Finding]:
    """A sentence for each serious error of a device; of several counters of one kind the first."""
    told: set[tuple[int, str | None, str]] = set()
    findings = []
    for each in found:
        key = each.device, each.instance, each.error
        if each.serious and key not in told:
            told.add(key)
            where = Place(each.capture, each.device, each.instance or "").words()
            findings.append(Finding("device_errors", f"{where}: {each.text}"))
    return findings


def find_counters(telemetry: Telemetry) -> list[Counter]:
    """Every counter of errors that is not zero: the rows of the table `errors`."""
    found = []
    for several in telemetry.named():
        raw = several[0] if len(several) == 1 else join([(each, 1.0) for each in several], None)
        error = error_of(raw.source, raw.name)
        if error is None or not raw.most:
            continue
        loaded = telemetry.load_raw(raw)
        known = ~np.isnan(loaded.value)
        t, value = loaded.t[known], loaded.value[known]
        changes = np.flatnonzero(np.diff(value)) + 1
        changed = int(t[changes[0]]) if len(changes) and loaded.timed else None
        growth: float | None = None
        if error != "xid" and len(value) > 1:
            steps = np.diff(value)
            growth = float(steps[steps > 0].sum())
        # A code may be cleared again: the last one that was seen counts.
        last = float(value[value != 0][-1]) if error == "xid" else float(value[-1])
        found.append(Counter(raw, error, float(value[0]), last, growth, changed, len(value)))
    return found
