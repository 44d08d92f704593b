"""The order of a sweep's cells: every axis shows each of its values early, so that a first picture comes early."""

from collections.abc import Sequence

from gradscope.config.grid import GridCell


def interleaved(cells: Sequence[GridCell]) -> list[GridCell]:
    """Return the cells along the grid's diagonals, first seeds first.

    Of a grid of 4 x 5 x 3, any of the first 5, next 5, ... cells have every value of every axis once or more. Included
    cells, which have no place in the grid, come after the others of their seed.
    """
    sizes = [1 + max(column) for column in zip(*(cell.place for cell in cells if cell.place), strict=True)]
    return sorted(cells, key=lambda cell: (cell.repeat, not cell.place, diagonal(cell.place, sizes)))


def diagonal(place: Sequence[int], sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the sort key of a place in a grid: which diagonal it is on, then where along the grid's longest axis.

    Diagonals are told apart by how far each other axis is ahead of the longest one, which is a place in a grid of one
    axis less: so they are in the order of its diagonals.
    """
    if not place:
        return ()
    longest = max(range(len(sizes)), key=lambda axis: (sizes[axis], -axis))
    others = [axis for axis in range(len(sizes)) if axis != longest]
    ahead = [(place[axis] - place[longest]) % sizes[axis] for axis in others]
    return (*diagonal(ahead, [sizes[axis] for axis in others]), place[longest])
