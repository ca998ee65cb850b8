"""Work of look-ups by index: rows are counted by the number of indices, not by the size of the table."""

from functools import partial

from traceanalyzer.passes.limits.families import Family
from traceanalyzer.passes.work.amounts import Estimator, Work, work
from traceanalyzer.passes.work.arguments import Arguments, Tensor, product
from traceanalyzer.passes.work.shapes import reduced

_ROWS = "each index reads a row of its own"


def _looked_up(indices: Tensor, elements: int, table: Tensor) -> Work:
    """Reads indices and elements of a table, writes them."""
    size = elements * table.precision.bytes
    return work(Family.EMBEDDING, 0, indices.distinct_bytes + size, size, table.precision, _ROWS)


def _work_of_embedding(arguments: Arguments) -> Work:
    """`embedding(weight, indices, ...)`."""
    table, indices = arguments.tensor(0), arguments.tensor(1)
    elements = product((indices.elements, *table.dims[1:]))
    return _looked_up(indices, elements, table)


def _work_of_bags(arguments: Arguments) -> Work:
    """`_embedding_bag(weight, indices, offsets, ...)`: the sum of the rows of each bag."""
    table, indices, offsets = (arguments.tensor(at) for at in range(3))
    added, sums = (product((tensor.elements, *table.dims[1:])) for tensor in (indices, offsets))
    size = table.precision.bytes
    read = indices.distinct_bytes + offsets.distinct_bytes + added * size
    return work(Family.EMBEDDING, added, read, sums * size, table.precision, _ROWS)


def _work_of_embedding_backward(arguments: Arguments) -> Work:
    """`embedding_dense_backward(grad_output, indices, num_weights, ...)`: adds rows into a new table."""
    gradient, indices = arguments.tensor(0), arguments.tensor(1)
    table = product((*arguments.integers(2), *gradient.dims[-1:]))
    read, written = gradient.distinct_bytes + indices.distinct_bytes, table * gradient.precision.bytes
    return work(Family.EMBEDDING, gradient.elements, read, written, gradient.precision)


def _row_elements(table: Tensor, arguments: Arguments) -> int:
    """Elements that one index selects; the dimension is the second argument."""
    dims = table.dims
    if len(dims) < 2:
        return 1
    return product(reduced(dims, arguments.integers(1)))


def _work_of_selection(arguments: Arguments) -> Work:
    """`index_select(self, dim, index)`."""
    table, indices = arguments.tensor(0), arguments.tensor(2)
    elements = product((indices.elements, _row_elements(table, arguments)))
    return _looked_up(indices, elements, table)


def _work_of_gather(arguments: Arguments) -> Work:
    """`gather(self, dim, index, ...)`: an element an index."""
    table, indices = arguments.tensor(0), arguments.tensor(2)
    return _looked_up(indices, indices.elements, table)


def _work_of_scatter(adds: bool, by_rows: bool, arguments: Arguments) -> Work:
    """`scatter_add_(self, dim, index, src)`, `index_add_` by rows: what is hit is read too where it is added to."""
    table, indices = arguments.tensor(0), arguments.tensor(2)
    source = arguments.find(3)
    hits = product((indices.elements, _row_elements(table, arguments) if by_rows else 1))
    size = table.precision.bytes
    # A source may be larger than the index; one element of it an index is read.
    given = 0 if source is None else min(source.distinct_bytes, hits * source.precision.bytes)
    read = indices.distinct_bytes + given + (hits * size if adds else 0)
    return work(Family.EMBEDDING, hits if adds else 0, read, hits * size, table.precision, _ROWS)


ESTIMATORS: dict[str, Estimator] = {
    "embedding": _work_of_embedding,
    "_embedding_bag": _work_of_bags,
    "embedding_dense_backward": _work_of_embedding_backward,
    "index_select": _work_of_selection,
    "gather": _work_of_gather,
    "scatter_add_": partial(_work_of_scatter, True, False),
    "scatter_": partial(_work_of_scatter, False, False),
    "index_add_": partial(_work_of_scatter, True, True),
    "index_copy_": partial(_work_of_scatter, False, True),
}
