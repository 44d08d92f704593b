"""Which cell to choose for each model, and why: the best by a metric, and what else is worth its price."""

import math
from collections.abc import Callable, Mapping, Sequence

from gradscope.analysis.axes import Axis, grouped, label, scene
from gradscope.analysis.fairness import samples_per_update
from gradscope.analysis.pareto import front
from gradscope.analysis.pivot import better, figure, grouped_repeats
from gradscope.analysis.results import OF_SUMMARY, Row, is_timed
from gradscope.core.summary import Record

NEAR = 0.05
"""A cell that is worse than the best by no more than this share is as good, for whoever is short of something."""

TIE = 0.001
"""Cells that are this close to each other are equally good: checkpointing changes no loss but by rounding."""


class Contender(Record, frozen=True, kw_only=True):
    """One cell, over its repeats."""

    group: str
    """Its model, or whatever else competes only with its like."""
    name: str
    """What it is called within its group."""
    cells: list[str]
    """Hashes of its repeats."""
    values: dict[str, float | None]
    """Medians over its repeats."""
    repeats: int
    samples_ratio: float | None = None
    """Samples an update, over the least in its group."""
    disturbed: bool = False
    """Whether others used the card or the core of a repeat: its times are too long."""
    on_front: bool = False


class Choice(Record, frozen=True, kw_only=True):
    """A contender and what it is chosen for."""

    contender: Contender
    roles: list[str]
    """`best`, `memory`, `time`, `energy`, `overall`."""


def contenders(rows: Sequence[Row], axes: Sequence[Axis], objectives: Sequence[str]) -> list[Contender]:
    """Return all cells of which a repeat is done, with the Pareto front of each group marked."""
    scenes = scene(axes)
    others = [axis for axis in axes if axis not in scenes]
    found = []
    for group, members in grouped(rows, scenes).items():
        cells = [cell for cell in grouped_repeats(members) if any(row.done for row in cell)]
        sizes = [max((samples_per_update(row) or 0.0 for row in cell if row.done), default=0.0) for cell in cells]
        least = min((size for size in sizes if size), default=0.0)
        values = [{name: figure(cell, name).value for name in OF_SUMMARY} for cell in cells]
        on_front = set(front(values, objectives))
        found += [
            Contender(
                group=group,
                name=label(cell[0], others),
                cells=[row.cell for row in cell],
                values=values[place],
                repeats=sum(row.done for row in cell),
                samples_ratio=sizes[place] / least if least and sizes[place] else None,
                disturbed=any(row.done and row.disturbed for row in cell),
                on_front=place in on_front,
            )
            for place, cell in enumerate(cells)
        ]
    return found


def choose(found: Sequence[Contender], metric: str, resources: Mapping[str, str]) -> list[Choice]:
    """Return, for each group, the best cell by a metric, and the least of each resource among those nearly as good.

    The best is looked for among cells with equally many samples an update; where one with more of them is better still,
    it is named too, as `overall`.

    Args:
        found: The contenders.
        metric: What is to be good.
        resources: What is to be little: role to metric.
    """
    groups: dict[str, list[Contender]] = {}
    for one in found:
        if one.values.get(metric) is not None:
            groups.setdefault(one.group, []).append(one)
    chosen: list[Choice] = []
    for members in groups.values():
        chosen += _of_group(members, metric, resources)
    return chosen


def nearly_as_good(members: Sequence[Contender], best: Contender, metric: str) -> list[Contender]:
    """Return those with equally many samples an update that are hardly worse than the best."""
    sign = 1.0 if better(metric) == "lower" else -1.0
    top = best.values[metric] or 0.0
    fair = [one for one in members if (one.samples_ratio or 1.0) < 1.05] or list(members)
    rated = [one for one in fair if one.values.get(metric) is not None]
    return [one for one in rated if sign * ((one.values[metric] or 0.0) - top) <= NEAR * abs(top)]


def _of_group(members: Sequence[Contender], metric: str, resources: Mapping[str, str]) -> list[Choice]:
    sign = 1.0 if better(metric) == "lower" else -1.0
    by_resources = _by(resources)

    def rank(one: Contender) -> tuple[float, ...]:
        """Order by the metric; equals by the resources."""
        own = one.values.get(metric)
        return (math.inf if own is None else sign * own, *by_resources(one))

    fair = [one for one in members if (one.samples_ratio or 1.0) < 1.05] or list(members)
    lead = min(fair, key=rank).values[metric] or 0.0
    ties = [one for one in fair if abs((one.values[metric] or 0.0) - lead) <= TIE * abs(lead)]
    vague = any(one.disturbed for one in ties)  # times then tell nothing: the grid's order, plain strategy first, does
    best = ties[0] if vague else min(ties, key=by_resources)
    top = best.values[metric] or 0.0
    near = nearly_as_good(members, best, metric)
    roles: dict[str, tuple[Contender, list[str]]] = {best.name: (best, ["best"])}
    for role, name in resources.items():
        usable = [one for one in near if not (is_timed(name) and one.disturbed)]
        rated = [one for one in usable if one.values.get(name) is not None]
        if rated and name != metric:
            least = min(rated, key=lambda one: (one.values[name] or 0.0, rank(one)))
            own = best.values.get(name)
            if best in usable and own is not None and own <= (least.values[name] or 0.0) * (1 + NEAR):
                least = best  # what another gains is no more than noise
            roles.setdefault(least.name, (least, []))[1].append(role)
    overall = min(members, key=rank)
    if overall is not best and sign * (overall.values[metric] or 0.0) < sign * top:
        roles.setdefault(overall.name, (overall, []))[1].append("overall")
    return [Choice(contender=one, roles=names) for one, names in roles.values()]


def _by(resources: Mapping[str, str]) -> Callable[[Contender], tuple[float, ...]]:
    """Return an order by resources, the first one first."""

    def order(one: Contender) -> tuple[float, ...]:
        values = [one.values.get(name) for name in resources.values()]
        return tuple(math.inf if value is None else value for value in values)

    return order
