"""Work of matrix products: 2 m n k a product; additions for biases and for their gradients are not counted."""

from dataclasses import dataclass
from functools import partial

from traceanalyzer.passes.limits.families import Family
from traceanalyzer.passes.work.amounts import Estimator, Work, multiply_adds, read_once, work
from traceanalyzer.passes.work.arguments import Arguments, Tensor, UnrecordedError, product
from traceanalyzer.passes.work.precisions import INT32, Precision
from traceanalyzer.passes.work.shapes import broadcast


@dataclass(frozen=True, slots=True)
class _Product:
    """Where the arguments of a product are."""

    left: int
    right: int
    added: tuple[int, ...] = ()
    """Other tensors that are read: biases, scales."""
    result_type: int | None = None
    """Where the operator is told the type of the result."""
    yields: Precision | None = None
    right_transposed: bool = False
    batch_summed: bool = False


_OPERATORS = {
    **dict.fromkeys(("mm", "bmm"), _Product(0, 1, result_type=2)),
    **dict.fromkeys(("mv", "dot", "vdot", "matmul"), _Product(0, 1)),
    **dict.fromkeys(("addmm", "baddbmm", "addmv", "_addmm_activation"), _Product(1, 2, (0,))),
    "addbmm": _Product(1, 2, (0,), batch_summed=True),
    "linear": _Product(0, 1, (2,), right_transposed=True),
    # _scaled_mm(self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum)
    "_scaled_mm": _Product(0, 1, (2, 3, 4, 5), result_type=6),
    "_int_mm": _Product(0, 1, yields=INT32),
}


def _multiplied(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Shape of a product of matrices, stacks of matrices or vectors, and how many terms each element sums."""
    if not left or not right or left[-1] != right[-2 if len(right) > 1 else 0]:
        raise UnrecordedError("no factors of a product")
    rows, columns = left[-2:-1], right[-1:] if len(right) > 1 else ()
    return (*broadcast([left[:-2], right[:-2]]), *rows, *columns), left[-1]


def _work_of_product(operator: _Product, arguments: Arguments) -> Work:
    left, right = arguments.tensor(operator.left), arguments.tensor(operator.right)
    turned = right.dims[::-1] if operator.right_transposed else right.dims
    shape, terms = _multiplied(left.dims, turned)
    flop = multiply_adds(product((*shape, terms)), left.precision)
    written = product(shape[-2:] if operator.batch_summed else shape)
    told = None if operator.result_type is None else arguments.find_type(operator.result_type)
    after = max(operator.left, operator.right, *operator.added)
    yields = operator.yields or arguments.result_type(after) or told or left.precision
    others = [arguments.find(at) for at in operator.added]
    read = read_once([left, right, *others])
    return work(Family.MATMUL, flop, read, written * yields.bytes, left.precision)


def _work_of_grouped(offsets_at: int, others: tuple[int, ...], result_type: int, arguments: Arguments) -> Work:
    """Groups of products: stacks give one product each, a flat matrix is cut along one side into groups."""
    left, right = arguments.tensor(0), arguments.tensor(1)
    if not all(len(tensor.dims) in (2, 3) for tensor in (left, right)) or left.dims[-1] != right.dims[-2]:
        raise UnrecordedError("no factors of a grouped product")
    rows, columns, terms = left.dims[-2], right.dims[-1], left.dims[-1]
    stacks = [tensor.dims[0] for tensor in (left, right) if len(tensor.dims) == 3]
    groups = stacks[0] if len(stacks) == 2 else 1
    flop = multiply_adds(product((groups, rows, columns, terms)), left.precision)
    # Two flat matrices are cut along the terms: each group gives a whole result.
    offsets = arguments.find(offsets_at)
    results = product(offsets.dims) if offsets is not None and not stacks else groups
    yields = arguments.find_type(result_type) or left.precision
    bytes_read = read_once([left, right, offsets, *(arguments.find(at) for at in others)])
    written = product((results, rows, columns)) * yields.bytes
    return work(Family.MATMUL, flop, bytes_read, written, left.precision, "groups cover all rows")


def _work_of_linear_backward(arguments: Arguments) -> Work:
    """`linear_backward(self, grad_output, weight, output_mask)`: each gradient is a product as large as the forward."""
    inputs, gradient, weight = (arguments.tensor(at) for at in range(3))
    wanted = arguments.flags(3, 3)
    forward = multiply_adds(product((*gradient.dims, weight.dims[-1] if weight.dims else 1)), weight.precision)
    read = read_once([gradient, weight if wanted[0] else None, inputs if wanted[1] else None])
    bias = Tensor(weight.dims[:1], None, weight.precision)
    written = sum(tensor.bytes for tensor, asked in zip((inputs, weight, bias), wanted, strict=True) if asked)
    return work(Family.MATMUL, forward * sum(wanted[:2]), read, written, weight.precision)


ESTIMATORS: dict[str, Estimator] = {
    **{name: partial(_work_of_product, operator) for name, operator in _OPERATORS.items()},
    # _grouped_mm(self, mat2, offs, bias, out_dtype)
    "_grouped_mm": partial(_work_of_grouped, 2, (3,), 4),
    # _scaled_grouped_mm(self, mat2, scale_a, scale_b, offs, bias, scale_result, out_dtype, use_fast_accum)
    "_scaled_grouped_mm": partial(_work_of_grouped, 4, (2, 3, 5), 7),
    "linear_backward": _work_of_linear_backward,
}
