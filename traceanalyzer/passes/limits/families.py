"""Families of kernels and operators: what kind of mathematics they do."""

from enum import StrEnum


class Family(StrEnum):
    """What a kernel or operator computes."""

    MATMUL = "matmul"
    CONVOLUTION = "convolution"
    ATTENTION = "attention"
    ELEMENTWISE = "elementwise"
    NORMALIZATION = "normalization"
    SOFTMAX = "softmax"
    REDUCTION = "reduction"
    EMBEDDING = "embedding"
    COPY = "copy"
    OPTIMIZER = "optimizer"
    COMMUNICATION = "communication"
    OTHER = "other"


MATHEMATICS = frozenset({Family.MATMUL, Family.CONVOLUTION, Family.ATTENTION})
"""Families whose operations are those of a model, and that tensor cores can do."""
