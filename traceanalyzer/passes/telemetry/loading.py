"""Samples of telemetry, read for many series at once."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.passes.operations import window_of
from traceanalyzer.passes.scope import Scope

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
SeriesKey = tuple[int, int, int, int, int, int]
"""Capture, device, and the names of instance, source, metric and unit in the store."""

NO_NAME = -1
"""The name of an instance or unit that is not stated."""
MOST_AT_ONCE = 500_000
"""Samples of several devices that are read together; a device with more is read series by series."""
MOST_KEPT = 8
"""How many such reads are kept: questions compare the same devices of several captures."""
_FARTHEST = 2**62


@dataclass(frozen=True, slots=True)
class Loaded:
    """Samples in the order of time: instants (or rounds of readings, where not `timed`) and values, nan where none."""

    t: Ints
    value: Floats
    timed: bool

    def within(self, low: int, high: int) -> Floats:
        """Known values of the samples from `low` to before `high`."""
        values = self.value[np.searchsorted(self.t, low) : np.searchsorted(self.t, high)]
        return values[~np.isnan(values)]


_Block = dict[SeriesKey, tuple[Ints, Floats]]


class Samples:
    """Samples of the series of a scope; `counts` says how many each has."""

    def __init__(self, scope: Scope, counts: Mapping[SeriesKey, int]) -> None:
        self._scope = scope
        self._block_of: dict[SeriesKey, int] = {}
        self._blocks: list[list[SeriesKey]] = []
        self._kept: OrderedDict[int, _Block] = OrderedDict()
        for block in _blocks(counts):
            self._block_of.update(dict.fromkeys(block, len(self._blocks)))
            self._blocks.append(block)

    def of(self, key: SeriesKey, scale: float) -> tuple[Ints, Floats]:
        """Instants, or rounds of readings, and values times `scale` of a series; those of one instant as read."""
        number = self._block_of[key]
        if number not in self._kept:
            self._kept[number] = self._read(self._blocks[number])
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(number)
        t, value = self._kept[number].get(key, (np.zeros(0, np.int64), np.zeros(0)))
        return t, value * scale

    def _read(self, block: list[SeriesKey]) -> _Block:
        capture = block[0][0]
        low, high = bounds(self._scope, capture)
        chosen = ""
        if len(block) == 1:
            _, _, instance, source, metric, unit = block[0]
            chosen = (
                f"AND coalesce(instance, {NO_NAME}) = {instance} AND source = {source} AND metric = {metric}"
                f" AND coalesce(metric_unit, {NO_NAME}) = {unit}"
            )
        got = self._scope.connection.execute(
            f"""SELECT device, coalesce(instance, {NO_NAME}) AS instance, source, metric,
                coalesce(metric_unit, {NO_NAME}) AS unit, coalesce(t_ns, tick, 0) AS t,
                coalesce(value, 'nan'::DOUBLE) AS value
            FROM stored.metric_samples WHERE capture = $capture AND device BETWEEN $first AND $last
                AND process IS NULL AND (t_ns IS NULL OR (t_ns >= $low AND t_ns < $high)) {chosen}
            ORDER BY device, instance, source, metric, unit, t, rowid""",
            {"capture": capture, "first": block[0][1], "last": block[-1][1], "low": low, "high": high},
        ).fetchnumpy()
        t = np.asarray(got["t"], np.int64)
        value = np.asarray(got["value"], np.float64)
        value = np.where(np.isfinite(value), value, np.nan)
        names = [np.asarray(got[name], np.int64) for name in ("device", "instance", "source", "metric", "unit")]
        if not len(t):
            return {}
        changes = np.any([column[1:] != column[:-1] for column in names], axis=0)
        begins = np.concatenate([[0], np.flatnonzero(changes) + 1])
        ends = np.append(begins[1:], len(t))
        keys = zip(*(column[begins].tolist() for column in names), strict=True)
        return {
            (capture, *key): (t[begin:end], value[begin:end])
            for key, begin, end in zip(keys, begins, ends, strict=True)
        }


def _blocks(counts: Mapping[SeriesKey, int]) -> Iterator[list[SeriesKey]]:
    """Series that are read together: those of neighbouring devices of a capture, while they are not too many."""
    block: list[SeriesKey] = []
    size = 0
    for (capture, _device), several in groupby(sorted(counts), lambda key: key[:2]):
        keys = list(several)
        more = sum(counts[key] for key in keys)
        if block and (block[0][0] != capture or size + more > MOST_AT_ONCE):
            yield block
            block, size = [], 0
        if more > MOST_AT_ONCE:
            yield from ([key] for key in keys)
        else:
            block.extend(keys)
            size += more
    if block:
        yield block


def bounds(scope: Scope, capture: int) -> tuple[int, int]:
    """The time that is selected: seconds of `--window` count from the first sample."""
    return window_of(scope, capture) or (-_FARTHEST, _FARTHEST)
