"""Whether the first bytes of a file may be those of a trace."""

import re

SCAN_FROM_BYTES = 96 << 20
"""Texts from this size on are scanned: loading the compiler's library takes as long as decoding some 60 MB."""
_BOM = b"\xef\xbb\xbf"
_OBJECT = re.compile(rb"\{\s*(?:\"|\}|$)")
_ARRAY = re.compile(rb"\[\s*(?:\{\s*(?:\"|$)|$|\])")


def looks_like_trace(head: bytes) -> bool:
    """Whether the head is the start of a JSON object, or of a list of objects.

    Keys of any size may stand before the events, so that only reading on can tell whether they are of a trace.
    """
    text = head.removeprefix(_BOM).lstrip()
    return (_OBJECT.match(text) or _ARRAY.match(text)) is not None
