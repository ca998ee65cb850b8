"""Types of elements: what PyTorch calls them in traces, their precision keys, sizes and promotion."""

from collections.abc import Sequence
from typing import NamedTuple


class Precision(NamedTuple):
    """A kind of number: `key` as peaks of devices are listed by, and the bytes of one element."""

    key: str
    bytes: int

    @property
    def is_floating(self) -> bool:
        """Whether it holds real or complex numbers, not integers."""
        return self.key.startswith(("fp", "bf", "complex"))

    @property
    def is_complex(self) -> bool:
        """Whether an element is a pair of numbers."""
        return self.key.startswith("complex")


UNRECORDED = Precision("", 2)
"""A type that the trace does not tell: two bytes, the least that training and inference commonly use.

Tensors in lists never have one in traces, nor has any tensor in those of 2020 and 2021.
"""
FP32, INT64, INT32, BOOL = Precision("fp32", 4), Precision("int64", 8), Precision("int32", 4), Precision("bool", 1)

_SPELLINGS = {
    Precision("fp64", 8): ("double", "float64"),
    FP32: ("float", "float32"),
    Precision("bf16", 2): ("c10::BFloat16", "bfloat16"),
    Precision("fp16", 2): ("c10::Half", "half", "float16"),
    Precision("fp8", 1): (
        *(f"c10::Float8_{kind}" for kind in ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz", "e8m0fnu")),
        *(f"float8_{kind}" for kind in ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz", "e8m0fnu")),
    ),
    INT64: ("long", "long int", "long long", "int64"),
    INT32: ("int", "int32", "c10::qint32"),
    Precision("int16", 2): ("short", "short int", "int16"),
    Precision("int8", 1): ("signed char", "char", "int8", "c10::qint8"),
    Precision("uint64", 8): ("unsigned long", "unsigned long int", "uint64"),
    Precision("uint32", 4): ("unsigned int", "uint32"),
    Precision("uint16", 2): ("unsigned short", "short unsigned int", "uint16"),
    Precision("uint8", 1): ("unsigned char", "byte", "uint8", "c10::quint8"),
    BOOL: ("bool",),
    Precision("complex32", 4): ("c10::complex<c10::Half>", "complexhalf"),
    Precision("complex64", 8): ("c10::complex<float>", "complexfloat", "complex64"),
    Precision("complex128", 16): ("c10::complex<double>", "complexdouble", "complex128"),
}
_BY_SPELLING = {text: precision for precision, texts in _SPELLINGS.items() for text in texts}
_BY_KEY = {precision.key: precision for precision in _SPELLINGS}
# c10/core/ScalarType.h: the number by which an operator is told a type.
_BY_SCALAR_TYPE = dict(
    zip(
        (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 15, 23, 24, 25, 26, 27, 28, 29),
        (
            *("uint8", "int8", "int16", "int32", "int64", "fp16", "fp32", "fp64"),
            *("complex32", "complex64", "complex128", "bool", "bf16"),
            *("fp8", "fp8", "fp8", "fp8", "uint16", "uint32", "uint64"),
        ),
        strict=True,
    )
)


def precision_of(type_text: str) -> Precision | None:
    """Precision of elements by the type that a trace or a kernel names: `c10::BFloat16` is bf16, two bytes."""
    return _BY_SPELLING.get(type_text)


def precision_of_scalar_type(number: int) -> Precision | None:
    """Precision by the number of a type, as operators that take a type are given it: 15 is bf16."""
    key = _BY_SCALAR_TYPE.get(number)
    return None if key is None else _BY_KEY[key]


def promoted(operands: Sequence[tuple[Precision, int]]) -> Precision:
    """Type of what is computed from operands, each a type and its number of dimensions.

    A tensor without dimensions counts only where it is of a higher category than those with dimensions
    (https://pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc). Where a double meets integers so,
    it is taken for a number of Python, which yields fp32.
    """
    shaped = [precision for precision, n_dims in operands if n_dims]
    bare = [precision for precision, n_dims in operands if not n_dims]
    if not shaped:
        return _widest(bare)
    result = _widest(shaped)
    if bare and result != UNRECORDED and _category(_widest(bare)) > _category(result):
        higher = _widest(bare)
        return FP32 if higher.key == "fp64" else higher
    return result


def _widest(precisions: Sequence[Precision]) -> Precision:
    """Type that holds the values of all."""
    if UNRECORDED in precisions:
        return UNRECORDED
    if {"fp16", "bf16"} <= {precision.key for precision in precisions}:
        precisions = (*precisions, FP32)
    return max(precisions, key=lambda precision: (_category(precision), precision.bytes))


def _category(precision: Precision) -> int:
    """Rank of the kind of number: truth values, integers, real numbers, complex ones."""
    if precision.is_complex:
        return 3
    return 2 if precision.is_floating else int(precision != BOOL)
