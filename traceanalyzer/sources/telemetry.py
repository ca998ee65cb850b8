"""What readers of telemetry share: words that mean "no value", numbers, and rows of `metric_samples`."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.schema.sink import Sink, Values
from traceanalyzer.sources.row_batches import Batches

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
_NONE = re.compile(
    r"-|n/?[aw]|nan|<<<null>>>|none|null|unknown|err(?:or)?!?"
    r"|not (?:supported|available|found|active for this gpu)|unknown error|gpu (?:is lost|requires reset)"
    r"|insufficient permissions?|function not found|requested functionality has been deprecated",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?|0x[0-9a-f]+", re.IGNORECASE)
_INTEGERS = {"device": np.int32, "process": np.int64, "t_ns": np.int64, "tick": np.int64}


def without_escapes(line: str) -> str:
    """A line without the escape sequences by which terminals colour and underline."""
    return _ANSI.sub("", line) if "\x1b" in line else line


def is_missing(text: str) -> bool:
    """Whether a cell says that there is no value: `-`, `[N/A]`, `[Not Supported]`, nothing at all, and the like."""
    bare = text.strip().strip("[]").strip()
    return not bare or _NONE.fullmatch(bare) is not None


def number(text: str) -> float | None:
    """The number that a cell holds, decimal or hexadecimal; None for anything else, infinities too."""
    bare = text.strip()
    if not _NUMBER.fullmatch(bare):
        return None
    try:
        value = float(int(bare, 16)) if bare[:2].lower() == "0x" else float(bare)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


_MS_FROM = 10**11  # a time in ms is later than March 1973 from here on, one in s later than the year 5138
_US_FROM = 10**14
_NS_FROM = 10**17


def epoch_ns(text: str) -> int | None:
    """Nanoseconds since 1970 of a time in s, ms, us or ns, told apart by their size; None if it is no such time."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    if not value.is_finite() or not 0 < value < 10**19:
        return None
    scale = 10**9 if value < _MS_FROM else 10**6 if value < _US_FROM else 10**3 if value < _NS_FROM else 1
    return int(value * scale)


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of one metric; `value` is None where the source had none.

    `t_ns` is None where the source tells no time: then `tick` orders what was printed together.
    """

    source: str
    metric: str
    value: float | None
    unit: str | None = None
    device: int | None = None
    instance: str | None = None
    process: int | None = None
    t_ns: int | None = None
    tick: int | None = None


class Samples:
    """Writes samples to a sink in batches, and keeps the first and the last instant. Call `finish` at the end."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._batches = Batches(sink)
        self._first: int | None = None
        self._last: int | None = None
        self.count = 0

    def add(self, sample: Sample) -> None:
        """One sample."""
        self.count += 1
        if (instant := sample.t_ns) is not None:
            self._first = instant if self._first is None else min(self._first, instant)
            self._last = instant if self._last is None else max(self._last, instant)
        self._batches.add(
            "metric_samples",
            {
                "source": sample.source,
                "device": sample.device,
                "instance": sample.instance,
                "process": sample.process,
                "metric": sample.metric,
                "metric_unit": sample.unit,
                "t_ns": sample.t_ns,
                "tick": sample.tick,
                "value": sample.value,
            },
        )

    def add_column(
        self, like: Sample, values: NDArray[np.float64], instance: Sequence[str | None] | None = None, **columns: Values
    ) -> None:
        """Many samples of one metric at once; values that are not a number are null.

        `like` is what they share. `columns` are those in which they differ (device, process, t_ns, tick), masked where
        there is none; `instance` has its texts.
        """
        count = len(values)
        if not count:
            return
        self.count += count
        shared = {"device": like.device, "process": like.process, "t_ns": like.t_ns, "tick": like.tick}
        batch: dict[str, Values] = {
            name: columns[name] if name in columns else np.full(count, value, _INTEGERS[name])
            for name, value in shared.items()
            if name in columns or value is not None
        }
        instants = np.ma.compressed(batch["t_ns"]) if "t_ns" in batch else np.zeros(0, np.int64)
        if len(instants):
            first, last = int(instants.min()), int(instants.max())
            self._first = first if self._first is None else min(self._first, first)
            self._last = last if self._last is None else max(self._last, last)
        for name, text in (("source", like.source), ("metric", like.metric), ("metric_unit", like.unit)):
            batch[name] = np.full(count, self._sink.texts.codes([text], 1)[0])
        if instance is not None or like.instance is not None:
            batch["instance"] = self._sink.texts.codes(instance or [like.instance] * count, count)
        batch["value"] = np.ma.masked_invalid(values)
        self._sink.write("metric_samples", batch)

    def device(self, number: int, name: str | None = None, uuid: str | None = None, memory: int | None = None) -> None:
        """A device of the file, with what it says of it. Call it once for a device."""
        self._batches.add("devices", {"device": number, "name": name, "uuid": uuid, "memory_bytes": memory})

    def place(self, place: str, attribute: str, value: str, other: str | None = None) -> None:
        """A row of `topology`: what is said of a GPU or NIC, or of the way from it to another."""
        self._batches.add("topology", {"place": place, "other": other, "attribute": attribute, "value": value})

    def finish(self) -> None:
        """Write what is left, and the span of the file."""
        self._batches.flush()
        if self._first is not None:
            self._sink.facts.start_ns, self._sink.facts.end_ns = self._first, self._last
