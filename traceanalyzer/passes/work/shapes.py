"""Shapes of results."""

from collections.abc import Sequence

from traceanalyzer.passes.work.arguments import UnrecordedError


def broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Shape of what is computed element by element from tensors of some shapes."""
    result = [1] * max((len(shape) for shape in shapes), default=0)
    for shape in shapes:
        first = len(result) - len(shape)
        for at, size in enumerate(shape, start=first):
            if size != 1 and result[at] not in (1, size):
                raise UnrecordedError("shapes that do not broadcast")
            result[at] = size if size != 1 else result[at]
    return tuple(result)


def reduced(dims: tuple[int, ...], over: Sequence[int]) -> tuple[int, ...]:
    """Shape of what is left when some dimensions are reduced, counted from the end where negative; all for none."""
    n_dims = max(len(dims), 1)  # a number may be reduced over its dimension 0 too
    if any(not -n_dims <= at < n_dims for at in over):
        raise UnrecordedError("no such dimension")
    gone = {at % n_dims for at in over} or set(range(n_dims))
    return tuple(size for at, size in enumerate(dims) if at not in gone)
