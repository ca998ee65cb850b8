"""Scrapes of an exporter in Prometheus' text format: one, or many that were appended to one file."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from traceanalyzer.schema.kinds import Severity
from traceanalyzer.schema.sink import Sink
from traceanalyzer.sources.dcgm.fields import RATIO, unit_of
from traceanalyzer.sources.dcgm.places import Place, Places
from traceanalyzer.sources.dcgm.values import NotAValueError, value_of
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.telemetry import Sample, Samples, epoch_ns
from traceanalyzer.sources.text_lines import Lines

SOURCE_NAME = "dcgm"
_OURS = ("DCGM_", "dcgm_", "nvidia_smi_")
_TIME = re.compile(
    r"(?:#\s*)?(?:(?:timestamp|time|date|scrape(?: at)?)\s*[:=]?\s*)?(\d{9,19}(?:\.\d+)?|\d{4}-\d\d-\d\d[T ]\S.*)", re.I
)
_UNIT = re.compile(r"\(in ([^()\s]+)\)")
_TOLD_UNITS = frozenset({"MHz", "C", "W", "mJ", "%", "MiB", "ns", "us", "ms", "s", "KB", "bytes"})
_GPU_INDEX = re.compile(r"nvidia_smi_(?:gpu_info|index)\{")
_MOST_KNOWN = 1 << 18
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Series:
    """What is known of a series from its name and labels. `metric` is None where it is nothing of a GPU."""

    metric: str | None
    unit: str | None
    place: Place


class Exposition:
    """Reads a file line by line, so that a torn scrape costs its torn line only.

    prometheus_client parses what it has not seen; the text of the same labels comes again with every scrape. Its parser
    of whole families is not used: it appends `_total` to the names of counters, and gives up at the first bad line.
    """

    def __init__(self, file: TraceFile, sink: Sink) -> None:
        self._file, self._sink = file, sink
        self._samples = Samples(sink)
        self._units: dict[str, str] = {}
        self._known: dict[str, Series] = {}
        self._seen: set[str] = set()
        self._families: set[str] = set()
        self._last_family = ""
        self._stamp: int | None = None
        self._stamps = self._tick = self._torn = self._others = self._undated = self._above_one = 0

    def read(self) -> int:
        """Write every sample; returns how many there were."""
        self._places = Places(self._sink, self._numbers())
        lines = Lines(self._file)
        held: str | None = None
        for line in lines:
            if held is not None:
                self._line(held)
            held = line
        # A scrape ends with a line feed: a last line without one may have lost digits.
        if held is not None and lines.cut and held.strip():
            self._sink.facts.whole = False
            self._sink.note("truncated", "The last line has no end and was left out: a part of it may be missing.")
        elif held is not None:
            self._line(held)
        self._places.finish(self._samples)
        self._samples.finish()
        if self._stamps and self._samples.count:
            self._sink.facts.utc_offset_ns = 0
        self._note(lines)
        return self._samples.count

    def _numbers(self) -> dict[str, int]:
        """Numbers of GPUs by UUID, which nvidia_gpu_exporter tells in lines of their own."""
        if b"nvidia_smi_" not in self._file.head:
            return {}
        out: dict[str, int] = {}
        for line in Lines(TraceFile(self._file.path)):
            if _GPU_INDEX.match(line) and (parsed := _parsed(line)) is not None:
                name, labels, value = parsed
                index = labels.get("index", "") if name.endswith("info") else value.removesuffix(".0")
                if labels.get("uuid") and index.isascii() and index.isdigit() and len(index) < 6:
                    out[labels["uuid"]] = int(index)
        return out

    def _line(self, line: str) -> None:
        line = line.strip()
        if not line:
            return
        if line[0] in "#0123456789" and (stamp := _stamp(line)) is not None:
            self._next_scrape(stamp)
            self._stamps += 1
        elif line[0] == "#":
            self._comment(line)
        else:
            self._sample(line)

    def _comment(self, line: str) -> None:
        words = line.split(None, 3)
        unit = _UNIT.search(words[3]) if len(words) == 4 and words[1] == "HELP" else None
        if unit is not None and unit[1] in _TOLD_UNITS and len(self._units) < _MOST_KNOWN:
            self._units.setdefault(words[2], unit[1])

    def _next_scrape(self, stamp: int | None) -> None:
        if self._seen:
            self._tick += 1
        self._seen.clear()
        self._families.clear()
        self._last_family = ""
        self._stamp = stamp

    def _sample(self, line: str) -> None:
        key, rest = _cut(line)
        series = self._known.get(key)
        if series is None:
            series = self._learn(key, line)
            if series is None:
                self._torn += 1
                return
        family = key.partition("{")[0]
        if key in self._seen and (family != self._last_family or len(self._families) == 1):
            self._undated += self._stamp is not None
            self._next_scrape(None)
        self._seen.add(key)
        self._families.add(family)
        self._last_family = family
        if series.metric is None:
            self._others += 1
            return
        words = rest.split()
        try:
            value = value_of(words[0]) if 1 <= len(words) <= 2 else None
            instant = epoch_ns(words[1]) if len(words) == 2 else self._stamp
        except NotAValueError:
            words = []
        if not 1 <= len(words) <= 2 or (len(words) == 2 and instant is None):
            self._torn += 1
            return
        self._stamps += len(words) == 2
        self._above_one += series.unit == RATIO and value is not None and value > 1
        place = series.place
        self._samples.add(
            Sample(
                source=SOURCE_NAME,
                metric=series.metric,
                value=value,
                unit=series.unit,
                device=place.device,
                instance=place.instance,
                process=place.process,
                t_ns=instant,
                tick=None if instant is not None else self._tick,
            )
        )

    def _learn(self, key: str, line: str) -> Series | None:
        parsed = _parsed(line)
        if parsed is None:
            return None
        name, labels, _value = parsed
        about_gpu = name.startswith(_OURS) and name.rpartition("_")[2] not in ("info", "bucket")
        if name == "nvidia_smi_gpu_info":
            self._name_gpu(labels)
        place = self._places.place(labels) if about_gpu else Place()
        series = Series(name if about_gpu else None, unit_of(name, self._units.get(name)), place)
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[key] = series
        return series

    def _name_gpu(self, labels: dict[str, str]) -> None:
        place = self._places.place(labels)
        if place.device is not None:
            self._places.name(place.device, labels.get("name"), labels.get("uuid"))

    def _note(self, lines: Lines) -> None:
        note = self._sink.note
        if self._torn:
            note("torn_lines", "Lines that are no whole sample were left out.", self._torn)
        if lines.too_long:
            note("torn_lines", "Lines of absurd length were left out.", lines.too_long)
        if self._undated:
            text = "Scrapes without a time among those that have one are ordered, and lie at no instant."
            note("scrapes_without_time", text, self._undated)
        if self._above_one:
            note("ratio_above_one", "Ratios above 1 are kept as they were told.", self._above_one)
        if self._others:
            text = "Samples of the exporter itself, and texts in labels, are no metrics of a GPU and were left out."
            note("other_families", text, self._others, Severity.INFO)


def _cut(line: str) -> tuple[str, str]:
    """Name and labels of a line, and the rest; OpenMetrics may put an exemplar behind that."""
    if " # {" in line:
        line = line.partition(" # {")[0]
    key, brace, rest = line.rpartition("}")
    if brace:
        return key, rest
    key, _, rest = line.replace("\t", " ").partition(" ")
    return key, rest


def _parsed(line: str) -> tuple[str, dict[str, str], str] | None:
    """Name, labels and text of the value by prometheus_client; None where the line is no sample."""
    from prometheus_client.parser import text_string_to_metric_families

    try:
        for family in text_string_to_metric_families(line):
            for sample in family.samples:
                return sample.name, dict(sample.labels), str(sample.value)
    except (ValueError, IndexError, KeyError, OverflowError):
        return None
    return None


def _stamp(line: str) -> int | None:
    """The instant that a line between scrapes tells, as `date +%s.%N` or ISO 8601 with a zone; None if it is none."""
    found = _TIME.fullmatch(line)
    if found is None:
        return None
    text = found[1]
    if "-" not in text[:5]:
        return epoch_ns(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        return None
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000
