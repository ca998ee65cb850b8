"""The slow path: text that is not one whole JSON list is taken apart, so that only events really damaged are lost."""

import re
from dataclasses import dataclass, field
from json import JSONDecodeError

from traceanalyzer.sources.torch_trace.records import Event, decode_event, event_of, first_value, loads

_BOUNDARY = re.compile(rb"\}(\s*,\s*)(?=\{)")
_END_OF_ARRAY = re.compile(rb"\s*,?\s*\](?=\s*(?:,\s*\"|\}\s*$|$))")
_CLOSING = re.compile(rb"\}\s*,?\s*\](?=\s*(?:,\s*\"|\}\s*$|$))")
_ESCAPE = re.compile(r"\\(?:([\"\\/bfnrt]|u[0-9a-fA-F]{4})|)")
_BARE_WORD = re.compile(r"([:,\[]\s*)[-+]?(?:nan|inf|infinity|n/a|none|undefined|null)(?=\s*[,}\]])", re.IGNORECASE)
_AFTER_STRING = re.compile(r"\s*(?:[}\]:]|,\s*[\"{\[\d\-tfn]|$)")
_MOST_PIECES = 64
_MOST_REPAIRED = 3
_LONGEST_WORD = 16
_LONGEST = 4 << 20


@dataclass(slots=True)
class Salvage:
    """What the slow path made of a text."""

    events: list[Event] = field(default_factory=list)
    consumed: int = 0
    """Bytes that are dealt with; what follows needs more text."""
    ended: bool = False
    """The end of the array was found, right before `consumed`."""
    repaired: int = 0
    lost: int = 0
    tail_bytes: int = 0
    """Bytes of an unfinished event at the end of the last text."""


def salvage(text: bytes, final: bool) -> Salvage:
    """Every event that can be read of a text that starts with an event, piece by piece.

    The text is cut at every probable boundary; a piece that is no whole event is joined with those after it, then
    repaired alone, then given up. Unless `final`, an unfinished event at the end of the text is left for later.
    """
    return _Pieces(text, final).read()


class _Pieces:
    """A text cut at every probable boundary."""

    def __init__(self, text: bytes, final: bool) -> None:
        borders = [(m.start() + 1, m.end()) for m in _BOUNDARY.finditer(text)]
        self._text = text
        self._final = final
        self._starts = [0, *(after for _before, after in borders)]
        self._ends = [*(before for before, _after in borders), len(text)]
        self._out = Salvage()

    def read(self) -> Salvage:
        out, i = self._out, 0
        while i < len(self._starts) and not out.ended:
            out.consumed = self._starts[i]
            taken = self._take(i)
            if taken is None:
                return out
            i += taken
        if not out.ended:
            out.consumed = len(self._text)
        return out

    def _take(self, i: int) -> int | None:
        """Takes the event that begins with piece i: how many pieces it used, or None if the text ends before it."""
        count = len(self._starts)
        for j in range(i, min(i + _MOST_PIECES, count)):
            length, last = self._ends[j] - self._starts[i], j + 1 == count
            if length > _LONGEST and j > i:
                break
            state = self._whole(self._starts[i], self._ends[j], last)
            if state == "whole":
                return j - i + 1
            if last and not self._final and length < _LONGEST:
                return None  # more text may finish it, and is needed to tell how far damage goes
            if last and state == "open":
                return self._take_tail(i)
            if state == "broken":
                break
        return self._give_up(i)

    def _take_tail(self, i: int) -> int:
        """The file ends inside the event that begins with piece i, unless that can be repaired; takes all the rest."""
        tail = self._text[self._starts[i] :]
        event = _repaired(tail)
        if event is not None and event.ph:
            self._out.events.append(event)
            self._out.repaired += 1
        else:
            self._out.tail_bytes = len(tail.strip())
        return len(self._starts) - i

    def _whole(self, start: int, end: int, last: bool) -> str:
        """Whether the text is a "whole" event (then it is kept), "open" (its end is missing) or "broken"."""
        piece = self._text[start:end]
        try:
            event = decode_event(piece)
        except ValueError as error:
            if (stop := _end_inside(piece)) is not None:
                event, length, ended = stop
                self._out.events.append(event)
                self._out.consumed, self._out.ended = start + length, ended
                return "whole"
            return "open" if _is_open(piece, error, _LONGEST_WORD if last else 0) else "broken"
        if event is not None and event.ph:
            self._out.events.append(event)
        return "whole"

    def _give_up(self, i: int) -> int:
        """Repairs piece i, alone or with the next ones, or counts it as lost; how many pieces that took."""
        out, start = self._out, self._starts[i]
        for j in range(i, min(i + _MOST_REPAIRED, len(self._starts))):
            event, end = _repaired_up_to_end(self._text[start : self._ends[j]])
            if event is not None:
                out.events.append(event)
                out.repaired += 1
                if end:
                    out.consumed, out.ended = start + end, True
                return j - i + 1
        piece = self._text[start : self._ends[i]]
        if b'"ph"' in piece:
            # Fragments of a lost event are not counted again.
            out.lost += 1
        end_of_array = _CLOSING.search(piece)
        if end_of_array and self._final and b'"ph"' not in self._text[start + end_of_array.end() :]:
            out.consumed, out.ended = start + end_of_array.end(), True
        return 1


def _end_inside(piece: bytes) -> tuple[Event, int, bool] | None:
    """The event at the start of a last piece, the length up to the array's end, and whether that was found."""
    text = piece.decode("utf-8", "surrogateescape")
    try:
        value, end = first_value(text, 0)
    except ValueError:
        return None
    length = len(text[:end].encode("utf-8", "surrogateescape"))
    try:
        event = decode_event(piece[:length])
    except ValueError:
        event = event_of(value)
    # A fragment of a damaged event may look like the end of the array: only a real event may stand before it.
    if event is None or not event.ph:
        return None
    if stop := _END_OF_ARRAY.match(piece, length):
        return event, stop.end(), True
    return (event, len(piece), False) if not piece[length:].strip(b" \t\r\n,") else None


def _is_open(piece: bytes, error: ValueError, slack: int) -> bool:
    """Whether the text seems good as far as it goes; `slack` characters at its end may be a word cut short."""
    if isinstance(error, JSONDecodeError):
        return error.msg.startswith("Unterminated") or error.pos + slack >= len(error.doc.rstrip())
    return not piece


def _repaired_up_to_end(piece: bytes) -> tuple[Event | None, int]:
    """The event of a piece after repairs, and the length up to the end of the array where that stands behind it."""
    event = _repaired(piece)
    if event is not None and event.ph:
        return event, 0
    for closing in _CLOSING.finditer(piece):
        event = _repaired(piece[: closing.start() + 1])
        if event is not None and event.ph:
            return event, closing.end()
    return None, 0


def _repaired(piece: bytes) -> Event | None:
    """The event of a piece after repairs of bad bytes, escapes, bare words and quotes, tried one after another."""
    text = piece.decode("utf-8", "replace").rstrip().removesuffix(",")
    for mend in (_mend_escapes, _mend_words, _mend_quotes):
        text = mend(text)
        try:
            return event_of(loads(text))
        except ValueError:
            continue
    return None


def _mend_escapes(text: str) -> str:
    return _ESCAPE.sub(lambda m: m.group() if m.group(1) else "\\\\", text)


def _mend_words(text: str) -> str:
    return _BARE_WORD.sub(r"\1null", text)


def _mend_quotes(text: str) -> str:
    """Escapes every quote inside a string: one after which neither a comma, colon nor bracket follows."""
    out, inside, i = [], False, 0
    while i < len(text):
        letter = text[i]
        if inside and letter == "\\":
            out.append(text[i : i + 2])
            i += 2
            continue
        if letter == '"':
            if inside and not _AFTER_STRING.match(text, i + 1):
                letter = '\\"'
            else:
                inside = not inside
        out.append(letter)
        i += 1
    return "".join(out)
