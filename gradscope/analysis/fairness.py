"""What was held equal between the cells of a grid, and what was not."""

from collections.abc import Sequence

from gradscope.analysis.axes import Axis, grouped, label, scene
from gradscope.analysis.results import Row
from gradscope.core.summary import Record

BUDGETS = {"updates": "updates", "samples": "samples", "seconds": "measured_seconds"}
"""Kinds of budgets, and the column that says how much of it a run used."""


class Budget(Record, frozen=True, kw_only=True):
    """What a grid's runs were given, and what they used."""

    kinds: list[str]
    """The kinds of budget its presets set."""
    equal: list[str]
    """Of `updates` and `samples`, and of `seconds` where the preset sets it: those that are equal within each group."""
    unequal: list[str]
    """Sentences on what differs, and what that means for reading the loss."""
    grown: dict[str, float]
    """Cells, by what they are called beside their model, that see more samples an update: how many times as many."""


def budget(rows: Sequence[Row], axes: Sequence[Axis]) -> Budget:
    """Find out which budget was held equal between the cells that compete."""
    done = [row for row in rows if row.done]
    groups = list(grouped(done, scene(axes)).values())
    kinds = list(dict.fromkeys(kind for row in rows if (kind := kind_of(row))))
    equal = [name for name in ("updates", "samples") if done and all(_equal(group, name) for group in groups)]
    if kinds == ["seconds"] and len({repr(row.settings.get("budget")) for row in rows}) == 1:
        equal.append("seconds")
    grown = _grown(groups, axes)
    return Budget(kinds=kinds, equal=equal, unequal=_sentences(equal, grown, done), grown=grown)


def kind_of(row: Row) -> str | None:
    """Return which budget a row's preset sets; `None` where its settings do not say."""
    table = row.settings.get("budget")
    given = [name for name in BUDGETS if table.get(name) is not None] if isinstance(table, dict) else []
    return given[0] if len(given) == 1 else None


def samples_per_update(row: Row) -> float | None:
    """Return how many rows of data one update was computed from, on average."""
    samples, updates = row.values.get("samples"), row.values.get("updates")
    return samples / updates if samples and updates else None


def _equal(group: Sequence[Row], name: str) -> bool:
    return len({row.values.get(name) for row in group}) == 1


def _grown(groups: Sequence[Sequence[Row]], axes: Sequence[Axis]) -> dict[str, float]:
    others = [axis for axis in axes if any(key.startswith(("memory.", "data.batch_size")) for key in axis.keys)]
    others = [axis for axis in others if not axis.decides_loss]
    found: dict[str, float] = {}
    for group in groups:
        sizes = {id(row): size for row in group if (size := samples_per_update(row))}
        least = min(sizes.values(), default=0.0)
        for row in group:
            if least and (times := sizes.get(id(row), 0.0) / least) >= 1.05:
                name = label(row, others)
                found[name] = max(found.get(name, 0.0), times)
    return found


def _sentences(equal: Sequence[str], grown: dict[str, float], done: Sequence[Row]) -> list[str]:
    found = []
    grows = any(row.accumulation_mode == "grow" for row in done)
    for name, times in grown.items():
        how = f", since accumulation in `grow` mode makes the batch {times:.3g} times larger" if grows else ""
        found.append(
            f"{name or 'some cells'}: {times:.3g} times the samples an update{how}. Its loss is not at equal samples"
        )
    if done and not equal:
        found.append("no budget is equal for all cells of a model: read losses against samples or seconds")
    return found
