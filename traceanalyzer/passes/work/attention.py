"""Work of fused attention: two matrix products forward, five backward, over the pairs that the mask keeps.

Scores are recomputed backward (FlashAttention, https://arxiv.org/abs/2205.14135): 2.5 times the forward FLOP where
values are as wide as queries. The softmax is not counted.
"""

from dataclasses import dataclass
from functools import partial

from traceanalyzer.passes.limits.families import Family
from traceanalyzer.passes.work.amounts import Estimator, Work, read_once, work
from traceanalyzer.passes.work.arguments import LARGEST, Arguments, Tensor, UnrecordedError, product
from traceanalyzer.passes.work.kept_pairs import kept_pairs

_CAUSAL_UNKNOWN = "causal, which is not recorded: the least FLOP"
_LENGTHS_UNKNOWN = "sequences of equal length, theirs are not recorded: the least FLOP"
_RECOMPUTED = "five products, scores recomputed"


@dataclass(frozen=True, slots=True)
class _Signature:
    """Where the arguments of an attention operator are."""

    query: int
    """Keys and values follow it."""
    causal: int
    heads_first: bool = False
    """Batch, heads, length, width; else batch, length, heads, width."""
    by_mask_type: bool = False
    """Told by a number: 0 not causal, 1 causal from the top left, 2 from the bottom right."""
    bottom_right: bool = False
    """With fewer queries than keys the last query sees all keys, not the first one key only."""
    window: tuple[int, int] | None = None
    """Where the widths of a sliding window are; -1 is unbounded."""
    ends: tuple[int, int] | None = None
    """Where the ends of sequences of varying length are that lie in one row."""
    bias: int | None = None
    shortened_by: tuple[int, ...] = ()
    """Where lengths of keys in use and tables of pages are: with one of them the shapes are those of a cache."""
    also_read: tuple[int, ...] = ()
    """What the backward pass reads besides: the gradient, the output, the logarithms of sums."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """Sizes of one call."""

    sequences: int
    heads: int
    queries: int
    """Of a sequence."""
    keys: int
    width: int
    value_width: int


def _batch_shape(signature: _Signature, query: Tensor, key: Tensor, value: Tensor) -> _Shape:
    if not len(query.dims) == len(key.dims) == len(value.dims) == 4:
        raise UnrecordedError("no batch of heads")
    heads, length = (1, 2) if signature.heads_first else (2, 1)
    sequences = query.dims[0]
    return _Shape(sequences, query.dims[heads], query.dims[length], key.dims[length], query.dims[3], value.dims[3])


def _packed_shape(query: Tensor, key: Tensor, value: Tensor, sequences: int) -> _Shape:
    """Sequences in one row: tokens, heads, width; whole tokens of a mean sequence, rounded down."""
    shapes = [tensor.dims[1:] if tensor.dims[:1] == (1,) else tensor.dims for tensor in (query, key, value)]
    if any(len(dims) != 3 for dims in shapes) or sequences < 1:
        raise UnrecordedError("no row of heads")
    (queries, heads, width), (keys, _, _), (_, _, value_width) = shapes
    return _Shape(sequences, heads, queries // sequences, keys // sequences, width, value_width)


def _shape(signature: _Signature, arguments: Arguments, operands: tuple[Tensor, Tensor, Tensor]) -> tuple[_Shape, bool]:
    """Sizes, and whether the sequences are packed into one row."""
    if any(arguments.find(at) for at in signature.shortened_by):
        raise UnrecordedError("the keys of a cache")
    ends = None if signature.ends is None else arguments.find(signature.ends[0])
    if ends is None:
        return _batch_shape(signature, *operands), False
    return _packed_shape(*operands, product(ends.dims) - 1), True


def _sides(signature: _Signature, arguments: Arguments) -> tuple[int | None, int | None, bool]:
    """Widths of the window, unbounded where None; whether causality had to be assumed."""
    left, right, assumed = None, None, False
    if signature.window is not None:
        left, right = (_width(arguments, at) for at in signature.window)
    if signature.by_mask_type:
        told = arguments.find_integers(signature.causal)
        causal = None if told is None or len(told) != 1 else told[0] > 0
    else:
        flags = arguments.find_flags(signature.causal)
        causal = None if flags is None or len(flags) != 1 else flags[0]
    if causal is None:
        causal, assumed = True, True
    return left, 0 if causal else right, assumed


def _width(arguments: Arguments, at: int) -> int | None:
    told = arguments.find_integers(at)
    return None if told is None or len(told) != 1 or told[0] < 0 else told[0]


def _offset(signature: _Signature, arguments: Arguments, shape: _Shape) -> int:
    from_bottom = signature.bottom_right or (
        signature.by_mask_type and arguments.find_integers(signature.causal) == (2,)
    )
    return shape.keys - shape.queries if from_bottom else 0


def _work_of_attention(signature: _Signature, arguments: Arguments) -> Work:
    first = signature.query
    operands = (arguments.tensor(first), arguments.tensor(first + 1), arguments.tensor(first + 2))
    query, _, value = operands
    shape, packed = _shape(signature, arguments, operands)
    left, right, assumed = _sides(signature, arguments)
    pairs = kept_pairs(shape.queries, shape.keys, _offset(signature, arguments, shape), left, right)
    if pairs > LARGEST:
        raise UnrecordedError("too many pairs")
    pairs = product((shape.sequences, shape.heads, pairs))
    backward = bool(signature.also_read)
    widths = 3 * shape.width + 2 * shape.value_width if backward else shape.width + shape.value_width
    notes = [
        note
        for note, holds in ((_RECOMPUTED, backward), (_CAUSAL_UNKNOWN, assumed), (_LENGTHS_UNKNOWN, packed))
        if holds
    ]
    others = [arguments.find(at) for at in signature.also_read]
    bias = None if signature.bias is None else arguments.find(signature.bias)
    read = read_once([*operands, *others, bias])
    output = product((*query.dims[:-1], value.dims[-1])) * query.precision.bytes
    written = sum(tensor.bytes for tensor in operands) if backward else output
    return work(Family.ATTENTION, 2 * pairs * widths, read, written, query.precision, *notes)


_HEADS_FIRST = partial(_Signature, heads_first=True)
_LIBRARY = partial(_Signature, bottom_right=True)
_FORWARD = {
    # (query, key, value, dropout_p, is_causal, ...)
    "_scaled_dot_product_flash_attention": _HEADS_FIRST(0, 4),
    # (query, key, value, attn_bias, compute_log_sumexp, dropout_p, is_causal, ...)
    "_scaled_dot_product_efficient_attention": _HEADS_FIRST(0, 6, bias=3),
    "_scaled_dot_product_cudnn_attention": _HEADS_FIRST(0, 6, bias=3),
    # (query, key, value, attn_bias, dropout_p, is_causal, ...)
    "_scaled_dot_product_fused_attention_overrideable": _HEADS_FIRST(0, 5, bias=3),
    "scaled_dot_product_attention": _HEADS_FIRST(0, 5, bias=3),
    # (query, key, value, attn_bias, cum_seq_q, cum_seq_k, max_q, max_k, compute_log_sumexp, dropout_p, is_causal, ...)
    "_cudnn_attention_forward": _HEADS_FIRST(0, 10, bias=3, ends=(4, 5)),
    # (query, key, value, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p, is_causal, return_debug_mask, scale,
    #  window_size_left, window_size_right, ...)
    "_flash_attention_forward": _LIBRARY(0, 8, window=(11, 12), ends=(3, 4), shortened_by=(13,)),
    # (query, key, value, bias, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p, custom_mask_type,
    #  ...)
    "_efficient_attention_forward": _Signature(0, 9, by_mask_type=True, bias=3, ends=(4, 5), shortened_by=(12,)),
    # (q, k, v, dropout_p, softmax_scale, causal, window_size_left, window_size_right, ...)
    "flash_attn::_flash_attn_forward": _LIBRARY(0, 5, window=(6, 7)),
    # (q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p, softmax_scale, causal,
    #  window_size_left, window_size_right, softcap, alibi_slopes, return_softmax, block_table, leftpad_k, seqused_k)
    "flash_attn::_flash_attn_varlen_forward": _LIBRARY(0, 9, window=(10, 11), ends=(3, 4), shortened_by=(15, 16, 17)),
    # (q, k, v, k_new, v_new, q_v, out, cu_seqlens_q, cu_seqlens_k, cu_seqlens_k_new, seqused_q, seqused_k,
    #  max_seqlen_q, max_seqlen_k, page_table, ..., softmax_scale, is_causal, window_size_left, window_size_right, ...),
    #  hopper/flash_api.cpp
    "flash_attn_3::fwd": _LIBRARY(0, 24, window=(25, 26), ends=(7, 8), shortened_by=(10, 11, 14)),
}
_BACKWARD = {
    # (grad_out, query, key, value, out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p, is_causal, ...)
    "_scaled_dot_product_flash_attention_backward": _HEADS_FIRST(1, 11, also_read=(0, 4, 5)),
    # (grad_out, query, key, value, attn_bias, out, logsumexp, philox_seed, philox_offset, dropout_p, grad_input_mask,
    #  is_causal, ...)
    "_scaled_dot_product_efficient_attention_backward": _HEADS_FIRST(1, 11, bias=4, also_read=(0, 5, 6)),
    # (grad_out, query, key, value, out, logsumexp, philox_seed, philox_offset, attn_bias, cum_seq_q, cum_seq_k, max_q,
    #  max_k, dropout_p, is_causal, ...)
    "_scaled_dot_product_cudnn_attention_backward": _HEADS_FIRST(1, 14, bias=8, also_read=(0, 4, 5)),
    "_cudnn_attention_backward": _HEADS_FIRST(1, 14, bias=8, ends=(9, 10), also_read=(0, 4, 5)),
    # (grad_out, query, key, value, out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p, is_causal,
    #  philox_seed, philox_offset, scale, window_size_left, window_size_right)
    "_flash_attention_backward": _LIBRARY(1, 11, window=(15, 16), ends=(6, 7), also_read=(0, 4, 5)),
    # (grad_out, query, key, value, bias, out, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, logsumexp,
    #  dropout_p, philox_seed, philox_offset, custom_mask_type, ...)
    "_efficient_attention_backward": _Signature(1, 14, by_mask_type=True, bias=4, ends=(6, 7), also_read=(0, 5, 10)),
    # (dout, q, k, v, out, softmax_lse, dq, dk, dv, dropout_p, softmax_scale, causal, window_size_left, ...)
    "flash_attn::_flash_attn_backward": _LIBRARY(1, 11, window=(12, 13), also_read=(0, 4, 5)),
    # (dout, q, k, v, out, softmax_lse, dq, dk, dv, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p,
    #  softmax_scale, causal, window_size_left, window_size_right, ...)
    "flash_attn::_flash_attn_varlen_backward": _LIBRARY(1, 15, window=(16, 17), ends=(9, 10), also_read=(0, 4, 5)),
    # (dout, q, k, v, out, softmax_lse, dq, dk, dv, cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, max_seqlen_q,
    #  max_seqlen_k, softmax_scale, is_causal, window_size_left, window_size_right, ...), hopper/flash_api.cpp
    "flash_attn_3::bwd": _LIBRARY(1, 16, window=(17, 18), ends=(9, 10), shortened_by=(11, 12), also_read=(0, 4, 5)),
}
ESTIMATORS: dict[str, Estimator] = {
    name: partial(_work_of_attention, signature) for name, signature in (_FORWARD | _BACKWARD).items()
}
