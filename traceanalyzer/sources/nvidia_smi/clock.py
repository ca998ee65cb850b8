"""Times as nvidia-smi and the scripts around it write them."""

import re
from collections.abc import Sequence
from datetime import date

from traceanalyzer.schema.kinds import Severity
from traceanalyzer.schema.sink import Sink

_SECOND, _DAY = 10**9, 86_400 * 10**9
_EPOCH = date(1970, 1, 1).toordinal()
_TIME = r"(?P<hour>\d{1,2}):(?P<minute>\d{2}):(?P<second>\d{2})(?:[.,](?P<part>\d{1,12}))?\s*(?P<half>[AaPp][Mm])?"
_ZONE = r"\s*(?P<zone>Z|UTC|GMT|[+-]\d{2}:?\d{2})?"
_MOMENT = re.compile(rf"(?P<a>\d{{1,4}})[-/.](?P<b>\d{{1,2}})[-/.](?P<c>\d{{1,4}})[T ,]+{_TIME}{_ZONE}")
_CALENDAR = re.compile(
    rf"(?:[A-Z][a-z]{{2}} )?(?P<month>[A-Z][a-z]{{2}}) +(?P<day>\d{{1,2}}) {_TIME} (?P<year>\d{{4}})"
)
_TIME_ONLY = re.compile(_TIME)
_UNIX = re.compile(r"(?P<whole>\d{9,19})(?:\.(?P<part>\d{1,12}))?")
_DAY_FIRST = re.compile(r"(\d{1,2})[-/.](\d{1,2})[-/.]\d{4}\b")
_COMPACT = re.compile(r"(\d{4})(\d{2})(\d{2})")
_MONTHS = {"JanFebMarAprMayJunJulAugSepOctNovDec"[3 * k : 3 * k + 3]: k + 1 for k in range(12)}
_UNIX_DIGITS = {9: _SECOND, 10: _SECOND, 12: 10**6, 13: 10**6, 15: 10**3, 16: 10**3, 18: 1, 19: 1}
_HALF_DAY = _DAY // 2
_FARTHEST = 1 << 62
_LONGEST = 64


class Clock:
    """Reads times into nanoseconds since 1970, those without a zone as if they were UTC.

    Times without a date are nanoseconds since the midnight before the first of them. Call `finish` at the end: it says
    what kind of clock the file has.
    """

    def __init__(self) -> None:
        self._days: dict[tuple[str, str, str], int | None] = {}
        self._day_first = False
        self._ambiguous: str | None = None
        self._zoned = self._local = self._dateless = False
        self._last_of_day, self._passed = -1, 0

    def learn(self, texts: Sequence[str]) -> None:
        """Finds out from some times whether the day stands before the month, where the year stands last."""
        pairs = [
            (int(m[1]), int(m[2])) for m in map(_DAY_FIRST.match, (t.strip() for t in texts if len(t) <= _LONGEST)) if m
        ]
        if not pairs:
            return
        first, second = {a for a, _ in pairs}, {b for _, b in pairs}
        if max(first) > 12 or max(second) > 12:
            self._day_first = max(first) > 12
        elif len(first) != len(second):
            self._day_first = len(first) > len(second)  # days change more often than months
        elif first != second:
            self._ambiguous = texts[0].strip()

    def moment(self, text: str) -> int | None:
        """A date with a time, or seconds since 1970; None for anything else."""
        instant = self._moment(text.strip()) if len(text) <= _LONGEST else None
        return instant if instant is not None and abs(instant) < _FARTHEST else None

    def _moment(self, text: str) -> int | None:
        if m := _MOMENT.fullmatch(text):
            key = (m["a"], m["b"], m["c"])
            if key not in self._days:
                self._days[key] = self._day(*key)
            day, zone = self._days[key], _zone_ns(m["zone"])
            if zone is None:
                self._local = True
            else:
                self._zoned = True
            since = _since_midnight(m)
            return None if day is None or since is None else day * _DAY + since - (zone or 0)
        if m := _CALENDAR.fullmatch(text):
            self._local = True
            day = _ordinal(m["year"], _MONTHS.get(m["month"], 0), m["day"])
            since = _since_midnight(m)
            return None if day is None or since is None else day * _DAY + since
        return self._unix(text)

    def of_day(self, day: str | None, time: str) -> int | None:
        """A time in a column of its own, with its date (YYYYMMDD) in another, if there is one."""
        m = _TIME_ONLY.fullmatch(time.strip()) if len(time) <= _LONGEST else None
        since = None if m is None else _since_midnight(m)
        if since is None:
            return None
        if day is not None:
            self._local = True
            whole = _COMPACT.fullmatch(day.strip())
            number = None if whole is None else _ordinal(whole[1], int(whole[2]), whole[3])
            instant = None if number is None else number * _DAY + since
            return instant if instant is not None and abs(instant) < _FARTHEST else None
        self._dateless = True
        if self._last_of_day - since > _HALF_DAY:
            self._passed += 1
        self._last_of_day = since
        return self._passed * _DAY + since

    def finish(self, sink: Sink) -> None:
        """Says what the times are."""
        if self._local:
            text = "Times are local and state no zone: they count as if they were UTC."
            sink.note("local_time", text, severity=Severity.INFO)
        elif self._zoned:
            sink.facts.utc_offset_ns = 0
        if self._dateless:
            text = "Times state no date: they count from the midnight before the first of them."
            sink.note("no_date", text, severity=Severity.INFO)
        if self._ambiguous is not None:
            text = f"Dates such as {self._ambiguous!r} are read as month, day, year; nothing in the file tells."
            sink.note("ambiguous_date", text)

    def _day(self, a: str, b: str, c: str) -> int | None:
        if len(a) == 4:
            return _ordinal(a, int(b), c)
        return _ordinal(c, int(b), a) if self._day_first else _ordinal(c, int(a), b)

    def _unix(self, text: str) -> int | None:
        m = _UNIX.fullmatch(text)
        unit = None if m is None else _UNIX_DIGITS.get(len(m["whole"]))
        if m is None or unit is None:
            return None
        self._zoned = True
        return int(m["whole"]) * unit + _part_ns(m["part"]) * unit // _SECOND


def _since_midnight(m: re.Match[str]) -> int | None:
    hour, minute, second = int(m["hour"]), int(m["minute"]), int(m["second"])
    if m["half"]:
        hour = hour % 12 + (12 if m["half"].lower() == "pm" else 0)
    if hour > 23 or minute > 59 or second > 60:
        return None
    return ((hour * 60 + minute) * 60 + second) * _SECOND + _part_ns(m["part"])


def _part_ns(part: str | None) -> int:
    """Nanoseconds of the decimals of a second; half a nanosecond rounds up."""
    if not part:
        return 0
    return int(part.ljust(9, "0")[:9]) + (len(part) > 9 and part[9] >= "5")


def _zone_ns(zone: str | None) -> int | None:
    if zone is None:
        return None
    if zone in ("Z", "UTC", "GMT"):
        return 0
    sign = -1 if zone[0] == "-" else 1
    return sign * (int(zone[1:3]) * 60 + int(zone[-2:])) * 60 * _SECOND


def _ordinal(year: str, month: int, day: str) -> int | None:
    """Days since 1970; None where the calendar has no such day."""
    try:
        return date(int(year), month, int(day)).toordinal() - _EPOCH
    except ValueError:
        return None
