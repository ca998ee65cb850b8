"""Types of elements that the names of PyTorch's kernels tell."""

import re

from traceanalyzer.passes.work.precisions import Precision, precision_of

_LARGEST_OPAQUE = 16
# `OpaqueType<2u>` in copies stands for any type of that size.
_OPAQUE = re.compile(r"OpaqueType<([0-9]{1,2})")
_TYPE = re.compile(r"[<,(]\s*((?:c10::)?(?:BFloat16|Half|Float8_\w+)|double|float|long|int|bool|c10::complex<\w+>)\b")
# Lists of numbers beside those of tensors have a type of their own.
_METADATA = re.compile(r"Metadata<[^<>]*>")


def element_of(kernel: str) -> Precision | None:
    """Type of what a templated kernel of PyTorch computes with: its first argument that is a type.

    Types of a size only have an empty key. None if the name tells no type.
    """
    if opaque := _OPAQUE.search(kernel):
        size = int(opaque[1])
        return Precision("", size) if 1 <= size <= _LARGEST_OPAQUE else None
    named = _TYPE.search(_METADATA.sub("", kernel))
    if named is None:
        return None
    text = named[1]
    return precision_of(text if text.startswith("c10::") or text.islower() else f"c10::{text}")
