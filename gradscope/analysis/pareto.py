"""The Pareto front: what nothing else beats in every respect."""

from collections.abc import Mapping, Sequence

from gradscope.analysis.pivot import better

Point = Mapping[str, float | None]


def front(points: Sequence[Point], objectives: Sequence[str]) -> list[int]:
    """Return the places of the points on the front, in their order.

    A point is on it if no other is at least as good in all objectives and better in one. Equal points are on it
    together; one that lacks an objective is not.

    Args:
        points: Each with its numbers by name.
        objectives: Names of metrics; which direction is good is theirs.
    """
    signs = [1 if better(name) == "lower" else -1 for name in objectives]
    costs: dict[int, list[float]] = {}
    for place, point in enumerate(points):
        values = [point.get(name) for name in objectives]
        if objectives and None not in values:
            costs[place] = [sign * value for sign, value in zip(signs, values, strict=True) if value is not None]
    return [
        place
        for place, own in costs.items()
        if not any(_dominates(other, own) for at, other in costs.items() if at != place)
    ]


def _dominates(a: Sequence[float], b: Sequence[float]) -> bool:
    return all(x <= y for x, y in zip(a, b, strict=True)) and any(x < y for x, y in zip(a, b, strict=True))
