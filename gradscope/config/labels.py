"""Short names of a grid's cells: the settings that tell them apart, and no others."""

from collections.abc import Sequence

from gradscope.config.grid import GridCell

FIRST = ("model.name", "optimizer.name", "memory.strategy")
"""Keys whose values say by themselves what they are."""

LAST = ("run.seed",)


def cell_labels(cells: Sequence[GridCell]) -> dict[str, str]:
    """Return each cell's label by its hash, e.g. `vit adam checkpoint` or `vit data.batch_size=16`.

    A key is in the labels if cells that had the same label without it differ in it.
    """
    settings = {cell.hash: dict(text.split("=", 1) for text in cell.settings) for cell in cells}
    keys = dict.fromkeys(key for given in settings.values() for key in given)
    ordered = sorted(keys, key=lambda key: (key not in FIRST, key in LAST))
    labels: dict[str, tuple[str, ...]] = dict.fromkeys(settings, ())
    for key in ordered:
        longer = {cell: (*labels[cell], _words(key, given)) for cell, given in settings.items()}
        if len(set(longer.values())) > len(set(labels.values())):
            labels = longer
    return {cell: " ".join(word for word in label if word) or "base" for cell, label in labels.items()}


def _words(key: str, settings: dict[str, str]) -> str:
    value = settings.get(key)
    if value is None:
        return ""
    return value.strip('"') if key in FIRST else f"{key}={value}"
