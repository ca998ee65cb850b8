"""Work of collectives on one rank: what it reads and writes of its own memory, and its share of the additions."""

from traceanalyzer.passes.communication.kinds import Kind, kind_of
from traceanalyzer.passes.limits.families import Family
from traceanalyzer.passes.work.amounts import Work, work
from traceanalyzer.passes.work.arguments import LARGEST, UnrecordedError
from traceanalyzer.passes.work.precisions import precision_of

_LOCAL = "buffers of this rank, what the algorithm stages between is not counted"
_REDUCING = (Kind.ALL_REDUCE, Kind.REDUCE_SCATTER, Kind.REDUCE)


def collective_work(kind: str, elements_in: int, elements_out: int, dtype: str, group_size: int | None) -> Work | None:
    """Work of a collective of a group; None for an unknown type or sizes that cannot be.

    To sum an array over n ranks takes n - 1 additions an element, shared by all: (n - 1) / n a rank.
    """
    precision = precision_of(dtype) or precision_of(dtype.lower())
    operation = kind_of(kind)
    if precision is None or operation is Kind.UNKNOWN or not 0 <= min(elements_in, elements_out) <= LARGEST:
        return None
    flop = 0
    if operation in _REDUCING:
        if group_size is None or group_size < 1:
            return None
        flop = elements_in * (group_size - 1) // group_size
    size = precision.bytes
    try:
        return work(Family.COMMUNICATION, flop, elements_in * size, elements_out * size, precision, _LOCAL)
    except UnrecordedError:
        return None
