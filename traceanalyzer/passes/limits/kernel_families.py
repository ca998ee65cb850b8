"""Families of kernels by their names, and whether a name says that tensor cores are used.

Names are those of libraries: cuBLAS (nvjet, xmma, gemm with s16816 and the like), cuDNN, CUTLASS, FlashAttention, ATen,
Triton as Inductor names its kernels, and Tensile on AMD (MI in a name: matrix instructions). What no pattern knows is
other, and of tensor cores it is said that the name does not tell.
"""

import re
from functools import lru_cache

from traceanalyzer.passes.limits.families import MATHEMATICS, Family

_FAMILIES = (
    (Family.COMMUNICATION, r"nccl|rccl|nvshmem|msccl|::ep::|all_?reduce_kernel|cross_device_reduce"),
    (
        Family.ATTENTION,
        r"flash_?(fwd|bwd|attn|attention)|fmha|sdpa|attention|attn_|splitkv|mha_|compute_dot_do_o|convert_dq",
    ),
    (Family.CONVOLUTION, r"conv(?!ert)|wgrad|dgrad|fprop|implicit_gemm|im2col|winograd|scudnn"),
    (
        Family.OPTIMIZER,
        r"adam|sgd_?(momentum)?kernel|fused_?sgd|lamb_|FusedOptimizer|amp_(update|non_finite)|optimizer",
    ),
    (
        Family.MATMUL,
        r"gemm|gemv|nvjet|cutlass.*(tensorop|simt)|cublas|matmul|Cijk_|_mm_|(^|_)mm(_|$)|dot_kernel|splitKreduce|xmma"
        r"|wmma|bgrad",
    ),
    (Family.SOFTMAX, r"softmax"),
    (Family.NORMALIZATION, r"layer_?norm|batch_?norm|group_?norm|rms_?norm|GammaBeta|bn_(fw|bw)|RowwiseMoments"),
    (
        Family.EMBEDDING,
        r"embedding|index_?select|gather(?!_all)|scatter|index_(put|elementwise|kernel)|take_along|indexing_backward",
    ),
    (
        Family.COPY,
        r"CatArray|copy_kernel|direct_copy|transpose|permute|FillFunctor|memset|memcpy|pad_|roll_cuda|im2row|nchwToNhwc"
        r"|nhwcToNchw",
    ),
    (Family.REDUCTION, r"reduce|reduction|(^|_)(sum|mean|norm)_|argmax|topk|sort|scan|cumsum|nll_loss|pool"),
    (
        Family.ELEMENTWISE,
        r"elementwise|pointwise|multi_tensor_apply|dropout|(^|_)(gelu|relu|silu|act)(_|$)|activation|swiglu"
        r"|rotary|rope|distribution_",
    ),
)
_OF_INDUCTOR = re.compile(r"triton_(poi|red|per)_")
"""Kernels that Inductor generates say pointwise or reduction in front of the operators that they fuse."""
_PATTERNS = tuple((family, re.compile(pattern, re.IGNORECASE)) for family, pattern in _FAMILIES)

_TENSOR = re.compile(
    r"nvjet|tensorop_|xdlops|wgmma|[hiqb]gmma|[hiqb]mma|wmma|[sdhi](?:884|1688|16816|8816|16832|16864|161616)|xmma_gemm_(?!f32f32)"
    r"|flash_?(?:fwd|bwd|attn)|fmha_cutlass[FB]_(?:f16|bf16).*_sm(?:[789]|1[0-9])\d|_MI\d|tcgen05|utcmma|umma|sm\d+_xmma"
    r"|tensor16x8x16|tensor1688|tf32",
    re.IGNORECASE,
)
_NOT_TENSOR = re.compile(
    r"(?:pre|post)process|simt|scudnn|[sd]gemm|gemv|gemmk1|splitKreduce|_f32f32_f32f32_f32_", re.IGNORECASE
)
_LONGEST = 4000
"""Characters of a name that are looked at."""


@lru_cache(1 << 14)
def family_of(kernel: str) -> Family:
    """The family that a kernel's name tells."""
    name = kernel[:_LONGEST]
    if generated := _OF_INDUCTOR.search(name):
        if generated[1] == "poi":
            return Family.ELEMENTWISE
        return Family.NORMALIZATION if "norm" in name else Family.SOFTMAX if "softmax" in name else Family.REDUCTION
    return next((family for family, pattern in _PATTERNS if pattern.search(name)), Family.OTHER)


@lru_cache(1 << 14)
def tensor_cores(kernel: str, family: Family) -> tuple[bool | None, str]:
    """Whether a kernel uses tensor cores as far as its name tells, and the part of the name that tells it."""
    name = kernel[:_LONGEST]
    if family not in MATHEMATICS and family is not Family.OTHER:
        return False, f"{family.value} needs none"
    no = _NOT_TENSOR.search(name)
    if no is not None and "tensorop_" not in name:
        return False, f"name: {no[0]}"
    if found := _TENSOR.search(name):
        return True, f"name: {found[0]}"
    return None, "the name does not tell"
