"""What a row of nccl-tests is about, as one text that people and programs read."""

from collections.abc import Mapping

KEYS = ("collective", "bytes", "dtype", "redop", "root", "ranks", "place", "output")
"""Order of the parts. Parts that the output does not tell are left out, `output` in files with one output."""


def instance_of(parts: Mapping[str, object]) -> str | None:
    """`collective=all_reduce bytes=1048576 dtype=float redop=sum ranks=8 place=in-place`, of what is known."""
    told = [f"{key}={parts[key]}" for key in KEYS if parts.get(key) not in (None, "")]
    return " ".join(told) or None


def parts_of(instance: str | None) -> dict[str, str]:
    """The parts of such a text by their names: the inverse of `instance_of`, with values as text."""
    pairs = [part.partition("=") for part in (instance or "").split()]
    return {key: value for key, mark, value in pairs if mark and key in KEYS}
