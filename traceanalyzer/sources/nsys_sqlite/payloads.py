"""NVTX payloads: values that a range carries, as JSON text or as a binary structure with its schema in the file.

A binary payload is a head of 32 bytes, `<IIIIQQ`: domain, 0, schema, 0, size of the data, size in all (or where the
data starts); then the data. NVTX_PAYLOAD_SCHEMA_ENTRIES names the fields of a schema with type and offset; the types
are those of `nvtxPayloadEntryType` in nvToolsExtPayload.h, larger numbers are other schemas and enumerations.
"""

import json
import struct
from dataclasses import dataclass
from typing import Any

from traceanalyzer.sources.nsys_sqlite.capture import Capture

_HEAD = struct.Struct("<IIIIQQ")
_REMEMBERED = 50_000

# nvtxPayloadEntryType -> format. C types have the sizes of 64-bit Linux.
_TYPES = {
    1: "c",
    2: "B",
    3: "h",
    4: "H",
    5: "i",
    6: "I",
    7: "q",
    8: "Q",
    9: "q",
    10: "Q",
    11: "b",
    12: "B",
    13: "h",
    14: "H",
    15: "i",
    16: "I",
    17: "q",
    18: "Q",
    19: "f",
    20: "d",
    22: "Q",
    23: "Q",
    32: "B",
    36: "f",
    37: "d",
    68: "I",
    69: "I",
}
_REGISTERED_STRING = 80
_FIRST_CUSTOM = 1 << 24


@dataclass(frozen=True, slots=True)
class BinaryPayload:
    """A binary payload: which schema describes it, and its data."""

    domain: int
    schema: int
    data: bytes


def payload_of(raw: Any) -> BinaryPayload | None:
    """Take a binary payload apart; None where it is none. Only the first of several is taken."""
    if not isinstance(raw, bytes) or len(raw) < _HEAD.size:
        return None
    domain, _, schema, _, size, _ = _HEAD.unpack_from(raw)
    data = raw[_HEAD.size : _HEAD.size + size]
    return BinaryPayload(domain, schema, data) if len(data) == size else None


class Payloads:
    """Decodes payloads of NVTX events to dictionaries of field names and values. Equal payloads are decoded once."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._fields: dict[tuple[int, int], list[tuple[str, int, int]]] = {}
        self._enumerations: dict[tuple[int, int], dict[int, str]] = {}
        self._known: dict[str | bytes, dict[str, Any]] = {}
        self._read_schemas()

    def _read_schemas(self) -> None:
        # Schemas repeat once a process; equal keys mean equal layouts, the first one is kept. A null value is 0.
        entries: dict[tuple[int, int], dict[int, tuple[str, int, int]]] = {}
        rows = self._capture.database.rows(
            "NVTX_PAYLOAD_SCHEMA_ENTRIES", "domainId", "schemaId", "idx", "type", "name", "offset", "arrayOrUnionDetail"
        )
        for domain, schema, index, kind, name, offset, detail in rows:
            if detail is None and isinstance(kind, int) and isinstance(name, str):
                entries.setdefault((domain, schema), {}).setdefault(index or 0, (name, kind, offset or 0))
        self._fields = {key: [fields[i] for i in sorted(fields)] for key, fields in entries.items()}
        for domain, schema, name, value in self._capture.database.rows(
            "NVTX_PAYLOAD_ENUM_ENTRIES", "domainId", "schemaId", "name", "value"
        ):
            self._enumerations.setdefault((domain, schema), {}).setdefault(value or 0, name)

    def decode(self, json_text: Any, binary: Any) -> dict[str, Any]:
        """Fields of a payload; empty where there is none or it cannot be read."""
        for source in (json_text, binary):
            if not source:
                continue
            found = self._known.get(source)
            if found is None:
                found = _of_json(source) if isinstance(source, str) else self._of_binary(source)
                if len(self._known) >= _REMEMBERED:
                    self._known.clear()
                self._known[source] = found
            if found:
                return found
        return {}

    def _of_binary(self, raw: Any) -> dict[str, Any]:
        payload = payload_of(raw)
        if payload is None:
            return {}
        fields = self._fields.get((payload.domain, payload.schema), [])
        values = {name: self._value(payload, kind, offset) for name, kind, offset in fields}
        return {name: value for name, value in values.items() if value is not None}

    def _value(self, payload: BinaryPayload, kind: int, offset: int) -> Any:
        enumeration = self._enumerations.get((payload.domain, kind)) if kind >= _FIRST_CUSTOM else None
        form = "<" + ("Q" if kind == _REGISTERED_STRING else "I" if enumeration is not None else _TYPES.get(kind, ""))
        if form == "<" or not isinstance(offset, int) or not 0 <= offset <= len(payload.data) - struct.calcsize(form):
            return None
        (value,) = struct.unpack_from(form, payload.data, offset)
        if enumeration is not None:
            return enumeration.get(value, value)
        if kind == _REGISTERED_STRING:
            return self._capture.names.text(value)
        return value.decode("latin-1") if isinstance(value, bytes) else value


def _of_json(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {"payload": text}
    return found if isinstance(found, dict) else {"payload": found}


def compact(fields: dict[str, Any]) -> str:
    """Fields as JSON text without blanks."""
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"), default=str)
