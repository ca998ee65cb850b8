"""The events of a trace as typed records, and their decoding: strict and fast, else one by one and lenient."""

import json
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, field

ABSENT = -(1 << 63)
"""Default of integers that an event does not have."""
NOTHING = Raw(b"")

Integer = int | str | None
Number = int | float | None
Text = str | None
Flag = bool | None


class OperationArguments(msgspec.Struct, gc=False):
    """Arguments of a kernel, copy or memory set."""

    correlation: Integer = ABSENT
    external_id: Integer = field(default=ABSENT, name="External id")
    external_id_lower: Integer = field(default=ABSENT, name="external id")
    device: Integer = ABSENT
    context: Integer = ABSENT
    stream: Integer = ABSENT
    bytes: Integer = ABSENT
    grid: list[int] | str | None = None
    block: list[int] | str | None = None
    registers: Integer = field(default=ABSENT, name="registers per thread")
    shared_memory: Integer = field(default=ABSENT, name="shared memory")
    occupancy: Number = field(default=None, name="est. achieved occupancy %")
    graph_id: Integer = field(default=ABSENT, name="graph id")
    graph_node_id: Integer = field(default=ABSENT, name="graph node id")
    collective: Text = field(default=None, name="Collective name")


class CallArguments(msgspec.Struct, gc=False):
    """Arguments of a runtime or driver call."""

    correlation: Integer = ABSENT
    external_id: Integer = field(default=ABSENT, name="External id")
    external_id_lower: Integer = field(default=ABSENT, name="external id")
    bytes: Integer = ABSENT
    size: Integer = ABSENT


class OperatorArguments(msgspec.Struct, gc=False):
    """Arguments of an operator or annotation."""

    external_id: Integer = field(default=ABSENT, name="External id")
    external_id_lower: Integer = field(default=ABSENT, name="external id")
    sequence_number: Integer = field(default=ABSENT, name="Sequence number")
    forward_thread: Integer = field(default=ABSENT, name="Fwd thread id")
    input_dims: Raw = field(default=NOTHING, name="Input Dims")
    input_dims_lower: Raw = field(default=NOTHING, name="Input dims")
    input_type: Raw = field(default=NOTHING, name="Input type")
    input_strides: Raw = field(default=NOTHING, name="Input Strides")
    concrete_inputs: Raw = field(default=NOTHING, name="Concrete Inputs")
    kernel_file: Raw = NOTHING
    call_stack: Text = field(default=None, name="Call stack")
    collective: Text = field(default=None, name="Collective name")
    finished: Flag = None


class TritonArguments(msgspec.Struct, gc=False):
    """What a generated kernel adds to the arguments of its operator."""

    kernel_file: Raw = NOTHING
    kernel_backend: Raw = NOTHING
    grid: Raw = NOTHING
    kernel_kwargs: Raw = NOTHING
    num_warps: Raw = NOTHING
    num_stages: Raw = NOTHING


class CollectiveArguments(msgspec.Struct, gc=False):
    """What record_param_comms says of a collective, on the operator or on its kernel."""

    collective: Text = field(default=None, name="Collective name")
    elements_in: Integer = field(default=ABSENT, name="In msg nelems")
    elements_out: Integer = field(default=ABSENT, name="Out msg nelems")
    dtype: Text = None
    group_size: Integer = field(default=ABSENT, name="Group size")
    group_name: Integer = field(default=None, name="Process Group Name")
    group_description: Integer = field(default=None, name="Process Group Description")
    group_ranks: str | list[int] | None = field(default=None, name="Process Group Ranks")
    rank: Integer = field(default=ABSENT, name="Rank")
    source_rank: Integer = field(default=ABSENT, name="Src Rank")
    destination_rank: Integer = field(default=ABSENT, name="Dst Rank")
    root_rank: Integer = field(default=ABSENT, name="Root Rank")
    sequence: Integer = field(default=ABSENT, name="Seq")
    communicator: Integer = field(default=None, name="Comms Id")


class MemoryArguments(msgspec.Struct, gc=False):
    """Arguments of a [memory] instant."""

    size: Integer = field(default=ABSENT, name="Bytes")
    address: Integer = field(default=ABSENT, name="Addr")
    device_type: Integer = field(default=ABSENT, name="Device Type")
    device_id: Integer = field(default=ABSENT, name="Device Id")
    total_allocated: Integer = field(default=ABSENT, name="Total Allocated")
    total_reserved: Integer = field(default=ABSENT, name="Total Reserved")


class FrameArguments(msgspec.Struct, gc=False):
    """Arguments of a Python frame that is a module's call."""

    module_id: Integer = field(default=ABSENT, name="Python module id")


class DeviceRowArguments(msgspec.Struct, gc=False):
    """Arguments of what stands on a device's row and is no operation."""

    kind: Text = field(default=None, name="cuda_sync_kind")
    device: Integer = ABSENT
    stream: Integer = ABSENT
    correlation: Integer = ABSENT
    wait_on_stream: Integer = ABSENT
    wait_on_record: Integer = field(default=ABSENT, name="wait_on_cuda_event_record_corr_id")
    task_type: Text = field(default=None, name="Task Type")


class NameArguments(msgspec.Struct, gc=False):
    """Arguments of a metadata event that names a process or thread."""

    name: Text = None
    labels: Text = None


class Event(msgspec.Struct, gc=False):
    """One event; times stay the text that the file has."""

    ph: str = ""
    cat: str | None = ""
    name: str | None = ""
    pid: int | str | None = None
    tid: int | str | None = None
    ts: Raw = NOTHING
    dur: Raw = NOTHING
    args: Raw = NOTHING


_EVENTS = msgspec.json.Decoder(list[Event])
_EVENT = msgspec.json.Decoder(Event)
_RAWS = msgspec.json.Decoder(list[Raw])
_TOO_DEEP = "nested too deeply"
_LENIENT = json.JSONDecoder(parse_float=str, parse_constant=lambda _text: None, strict=False)


def decode_block(text: bytes) -> tuple[list[Event], int]:
    """Events of a whole JSON list; second: how many of its items are no objects.

    Raises `msgspec.DecodeError` where the text is not one whole JSON list, `ValueError` where it nests too deeply.
    """
    try:
        try:
            return _EVENTS.decode(text), 0
        except msgspec.ValidationError:
            # One event has a value of a type that no writer should give: prove the syntax, then take each event alone.
            pieces = _RAWS.decode(text)
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error
    events = [decode_event(bytes(piece)) for piece in pieces]
    kept = [event for event in events if event is not None]
    return kept, len(events) - len(kept)


def decode_event(text: bytes) -> Event | None:
    """One event that is whole JSON, whatever the types of its values; None if it is no object.

    Raises `ValueError` where the text is no JSON.
    """
    try:
        return _EVENT.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return event_of(loads(text.decode("utf-8", "replace")))


def loads(text: str) -> Any:
    """A JSON value as Python has it, with decimals kept as text. Raises `ValueError`."""
    try:
        return _LENIENT.decode(text)
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error


def first_value(text: str, start: int) -> tuple[Any, int]:
    """The JSON value at a position of the text, decimals as text, and the position after it. Raises `ValueError`."""
    try:
        return _LENIENT.raw_decode(text, start)
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error


def event_of(value: Any) -> Event | None:
    """A record made of a decoded JSON object, each value taken as far as it makes sense; None if it is no object."""
    if not isinstance(value, dict):
        return None
    return Event(
        ph=_text(value.get("ph")) or "",
        cat=_text(value.get("cat")),
        name=_text(value.get("name")),
        pid=_whole_or_text(value.get("pid")),
        tid=_whole_or_text(value.get("tid")),
        ts=_raw(value["ts"]) if "ts" in value else NOTHING,
        dur=_raw(value["dur"]) if "dur" in value else NOTHING,
        args=Raw(_dumps(value["args"]).encode("utf-8", "replace")) if "args" in value else NOTHING,
    )


Arguments = TypeVar("Arguments", bound=msgspec.Struct)


def arguments_of(texts: Sequence[bytes | Raw], kind: type[Arguments]) -> list[Arguments]:
    """Arguments of events as records of one kind; empty texts give records of defaults."""
    texts = [text or b"{}" for text in texts]
    try:
        return _decoder(kind).decode(b"".join((b"[", b",".join(texts), b"]")))
    except (msgspec.DecodeError, ValueError, RecursionError):
        return [_arguments(bytes(text), kind) for text in texts]


@lru_cache
def _decoder(kind: type[Arguments]) -> msgspec.json.Decoder[list[Arguments]]:
    return msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]


@lru_cache
def _single_decoder(kind: type[Arguments]) -> msgspec.json.Decoder[Arguments]:
    return msgspec.json.Decoder(kind)


def _arguments(text: bytes, kind: type[Arguments]) -> Arguments:
    """Arguments of one event: strict, so that the others do not matter, else each value as far as it makes sense."""
    with suppress(msgspec.DecodeError, ValueError, RecursionError):
        value: Arguments = _single_decoder(kind).decode(text)
        return value
    try:
        values = loads(text.decode("utf-8", "replace"))
    except ValueError:
        return kind()
    if not isinstance(values, dict):
        return kind()
    known = {}
    for info in msgspec.structs.fields(kind):
        if info.encode_name in values:
            known[info.name] = _CONVERT[info.type](values[info.encode_name])
    return kind(**known)


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else _dumps(value)


def _whole_or_text(value: Any) -> int | str | None:
    number = whole_number(value)
    return _text(value) if number is None else number


def _raw(value: Any) -> Raw:
    # Decimals were kept as text, so that quotes around a number say nothing here: times drop them anyway.
    return Raw(_dumps(value).encode("utf-8", "replace"))


def _dumps(value: Any) -> str:
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error


def _whole_list(value: Any) -> list[int] | None:
    if not isinstance(value, list):
        return None
    numbers = [whole_number(v) for v in value]
    return None if any(n is None for n in numbers) else [n for n in numbers if n is not None]


def whole_number(value: Any) -> int | None:
    """The integer that a value says: a number, or text that is one ("7", "7.0", "stream 7"); else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if not isinstance(value, str) or len(value) > 40:
        return None
    text = value.strip().removeprefix("stream ").strip()
    head, dot, tail = text.partition(".")
    if dot and tail.strip("0"):
        return None
    digits = head.removeprefix("-")
    return int(head) if digits.isascii() and digits.isdigit() else None


def _number(value: Any) -> int | float | None:
    try:
        return None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None


_CONVERT: dict[Any, Any] = {
    Integer: _whole_or_text,
    Number: _number,
    Raw: _raw,
    Text: _text,
    Flag: lambda value: value if isinstance(value, bool) else None,
    list[int] | str | None: _whole_list,
    str | list[int] | None: lambda value: _whole_list(value) or _text(value),
}
