"""How ranks are grouped; nothing here needs PyTorch."""

import math


def tensor_group_size(world: int) -> int:
    """Ranks of a tensor-parallel group: as near to a square as the number of ranks divides; all, if it is prime."""
    return max((size for size in range(2, math.isqrt(world) + 1) if world % size == 0), default=world)


def tensor_groups(world: int) -> list[list[int]]:
    """Neighbours, which reduce activations."""
    size = tensor_group_size(world)
    return [list(range(first, first + size)) for first in range(0, world, size)]


def data_groups(world: int) -> list[list[int]]:
    """Ranks of one place in their tensor-parallel groups, which reduce gradients."""
    size = tensor_group_size(world)
    return [list(range(place, world, size)) for place in range(size)]
