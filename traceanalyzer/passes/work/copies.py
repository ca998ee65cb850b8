"""Work of operators that only move data: copies, conversions, fills, concatenations."""

from collections.abc import Sequence

from traceanalyzer.passes.limits.families import Family
from traceanalyzer.passes.work.amounts import Estimator, Work, read_once, work
from traceanalyzer.passes.work.arguments import Arguments, Tensor
from traceanalyzer.passes.work.precisions import Precision


def _moved(sources: Sequence[Tensor], to: Precision | None = None) -> Work:
    """Reads some tensors, writes as many elements."""
    precision = to or sources[0].precision
    elements = sum(tensor.elements for tensor in sources)
    return work(Family.COPY, 0, read_once(sources), elements * precision.bytes, sources[0].precision)


def _work_of_copy(arguments: Arguments) -> Work:
    """`copy_(self, src)`: converts, broadcasts and rearranges."""
    target, source = arguments.tensor(0), arguments.tensor(1)
    return work(Family.COPY, 0, source.distinct_bytes, target.bytes, source.precision)


def _work_of_clone(arguments: Arguments) -> Work:
    return _moved([arguments.tensor(0)], arguments.result_type(0))


def _work_of_conversion(arguments: Arguments) -> Work:
    """`_to_copy(self, dtype, ...)`: without a type told the old one stays."""
    return _moved([arguments.tensor(0)], arguments.find_type(1))


def _work_of_fill(arguments: Arguments) -> Work:
    filled = arguments.tensor(0)
    return work(Family.COPY, 0, 0, filled.bytes, filled.precision)


def _work_of_fills(arguments: Arguments) -> Work:
    filled = arguments.tensors(0)
    return work(Family.COPY, 0, 0, sum(tensor.bytes for tensor in filled), filled[0].precision)


def _work_of_joining(arguments: Arguments) -> Work:
    """`cat(tensors, dim, out)`, `stack(...)`, `_chunk_cat(tensors, dim, num_chunks, out)`.

    The shape of a given result is no help where the list is not recorded: it may be the one before it was resized.
    """
    return _moved(arguments.tensors(0), arguments.result_type(1))


def _work_of_list_copy(arguments: Arguments) -> Work:
    """`_foreach_copy_(self, src)`."""
    targets, sources = arguments.tensors(0), arguments.tensors(1)
    written = sum(tensor.bytes for tensor in targets)
    return work(Family.COPY, 0, read_once(sources), written, sources[0].precision)


def _work_of_cache_write(arguments: Arguments) -> Work:
    """`reshape_and_cache(key, value, key_cache, value_cache, ...)` of vLLM: writes the new rows into its cache."""
    rows = [arguments.tensor(0), arguments.tensor(1)]
    return _moved(rows, arguments.tensor(2).precision)


ESTIMATORS: dict[str, Estimator] = {
    "copy_": _work_of_copy,
    **dict.fromkeys(("clone", "contiguous", "flip", "roll", "tril", "triu"), _work_of_clone),
    **dict.fromkeys(("split_with_sizes_copy", "_local_scalar_dense"), _work_of_clone),
    "_to_copy": _work_of_conversion,
    **dict.fromkeys(("fill_", "zero_"), _work_of_fill),
    "_foreach_zero_": _work_of_fills,
    **dict.fromkeys(("cat", "stack", "_chunk_cat"), _work_of_joining),
    "_foreach_copy_": _work_of_list_copy,
    **dict.fromkeys(("_C_cache_ops::reshape_and_cache", "_C_cache_ops::reshape_and_cache_flash"), _work_of_cache_write),
}
