"""Answers of Prometheus' HTTP API: `query` (one value a series) and `query_range` (many)."""

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from traceanalyzer.errors import SourceError
from traceanalyzer.schema.kinds import Severity
from traceanalyzer.schema.sink import Sink
from traceanalyzer.sources.dcgm.fields import RATIO, unit_of
from traceanalyzer.sources.dcgm.places import Place, Places
from traceanalyzer.sources.dcgm.values import NotAValueError, value_of
from traceanalyzer.sources.files import TraceFile
from traceanalyzer.sources.telemetry import Sample, Samples, epoch_ns

_MOST_BYTES = 1 << 28
_RESULT = re.compile(r'"result"\s*:\s*\[')
_NEXT = re.compile(r"[\s,]*")
_SHOWN = 200
_NO_NAME = "(expression)"
"""Name of what an expression such as `avg(...)` returns, which has none."""
_GPU_LABELS = frozenset({"gpu", "UUID", "uuid", "GPU_I_ID"})


class ApiAnswer:
    """Reads one answer, series by series; of a cut one those that are whole."""

    def __init__(self, file: TraceFile, sink: Sink) -> None:
        self._file, self._sink = file, sink
        self._samples = Samples(sink)
        self._places = Places(sink)
        self._spans: dict[tuple[str, Place], list[tuple[int, int]]] = {}
        self._bad = self._above_one = 0

    def read(self) -> int:
        """Write every sample; returns how many there were. Raises `SourceError` where Prometheus tells of an error."""
        text = self._text()
        start = _RESULT.search(text)
        if start is None:
            raise SourceError(self._file.path, self._why(text), "repeat the query")
        for series in self._series(text, start.end()):
            self._one(series)
        self._places.finish(self._samples)
        self._samples.finish()
        if self._samples.count:
            self._sink.facts.utc_offset_ns = 0
        if self._bad:
            self._sink.note(
                "damaged_samples", "Samples that are no pair of a time and a number were left out.", self._bad
            )
        if self._above_one:
            self._sink.note("ratio_above_one", "Ratios above 1 are kept as they were told.", self._above_one)
        return self._samples.count

    def _text(self) -> str:
        content = bytearray()
        for block in self._file.blocks():
            content += block
            if len(content) > _MOST_BYTES:
                raise SourceError(
                    self._file.path, "an answer of Prometheus of more than 256 MB", "query a shorter time"
                )
        return content.decode("utf-8-sig", "replace")

    def _why(self, text: str) -> str:
        """What an answer without results says of itself."""
        told = []
        for name in ("errorType", "error"):
            if found := re.search(rf'"{name}"\s*:\s*("(?:[^"\\]|\\.){{0,1000}}")', text):
                try:
                    told.append(str(json.loads(found[1], strict=False)))
                except ValueError:
                    continue
        if told:
            return f"Prometheus answered with an error, {': '.join(told)[:_SHOWN]}"
        return "an answer of Prometheus without series"

    def _series(self, text: str, at: int) -> Iterator[dict[str, Any]]:
        decoder = json.JSONDecoder(parse_float=Decimal, parse_int=Decimal)
        while True:
            blank = _NEXT.match(text, at)
            at = at if blank is None else blank.end()
            if text.startswith("]", at):
                return
            try:
                found, at = decoder.raw_decode(text, at)
            except (ValueError, RecursionError):
                self._sink.facts.whole = False
                self._sink.note("truncated", "The answer ends early: series that are not whole were left out.")
                return
            if isinstance(found, dict):
                yield found
            else:  # a scalar or string: [time, "value"]
                self._bad += 1

    def _one(self, series: dict[str, Any]) -> None:
        labels = series.get("metric")
        labels = {k: v for k, v in labels.items() if isinstance(v, str)} if isinstance(labels, dict) else {}
        pairs = series.get("values")
        pairs = pairs if isinstance(pairs, list) else [series.get("value")]
        metric = labels.pop("__name__", "") or _NO_NAME
        unit = unit_of(metric)
        found = [pair for each in pairs if (pair := self._pair(each)) is not None]
        if not found:
            return
        place = self._told_apart(metric, self._place(metric, labels), found)
        for instant, value in found:
            self._above_one += unit == RATIO and value is not None and value > 1
            self._samples.add(
                Sample("dcgm", metric, value, unit, place.device, place.instance, place.process, t_ns=instant)
            )

    def _place(self, metric: str, labels: dict[str, str]) -> Place:
        place = self._places.place(labels, "instance")
        if place.device is None and place.instance is None and _GPU_LABELS.isdisjoint(labels) and metric == _NO_NAME:
            text = "What expressions return has no name: it is listed as (expression)."
            self._sink.note("no_metric_name", text, severity=Severity.INFO)
        return place

    def _pair(self, pair: object) -> tuple[int, float | None] | None:
        if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[1], str):
            instant = epoch_ns(str(pair[0])) if isinstance(pair[0], Decimal) else None
            try:
                value = value_of(pair[1])
            except NotAValueError:
                instant = None
            if instant is not None:
                return instant, value
        self._bad += 1
        return None

    def _told_apart(self, metric: str, place: Place, pairs: list[tuple[int, float | None]]) -> Place:
        """The place, with a number where another series of the same place has samples at the same time."""
        spans = self._spans.setdefault((metric, place), [])
        first, last = min(t for t, _ in pairs), max(t for t, _ in pairs)
        overlapping = sum(low <= last and first <= high for low, high in spans)
        spans.append((first, last))
        if not overlapping:
            return place
        self._sink.note(
            "series_alike", "Series that no label of a GPU tells apart are numbered: series 2, series 3 ...", 1
        )
        number = f"series {overlapping + 1}"
        instance = number if place.instance is None else f"{place.instance}, {number}"
        return Place(place.device, instance, place.process)
