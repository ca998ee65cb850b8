"""How many pairs of a query and a key an attention mask keeps."""


def kept_pairs(queries: int, keys: int, offset: int, left: int | None, right: int | None) -> int:
    """Pairs (i, j) with i + offset - left <= j <= i + offset + right; None: unbounded on that side.

    Causal is right = 0: with as many queries as keys n (n + 1) / 2.
    """
    through = queries * keys if right is None else _staircase(queries, keys, offset + right + 1)
    before = 0 if left is None else _staircase(queries, keys, offset - left)
    return max(through - before, 0)


def _staircase(rows: int, width: int, first: int) -> int:
    """Cells under steps of one: row i has i + first of them, at least none and at most the width."""
    return _triangle(rows + first, width) - _triangle(first, width)


def _triangle(rows: int, width: int) -> int:
    """Cells under steps in rows 0, 1, 2, ... that have as many cells as their number, at most the width."""
    if rows <= 0:
        return 0
    rising = min(rows, width + 1)
    return rising * (rising - 1) // 2 + (rows - rising) * width
