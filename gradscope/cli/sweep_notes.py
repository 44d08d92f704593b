"""What a sweep or its report has to say about its folder and its settings before anything else."""

from collections.abc import Sequence
from pathlib import Path

from gradscope.config.grid import idle_exclusions
from gradscope.config.overrides import parse_override
from gradscope.config.schema import Preset, SweepSettings
from gradscope.config.sweep import settings_of
from gradscope.core.text import visible
from gradscope.errors import GradscopeError
from gradscope.rundir.cells import unreadable_runs

MOST_NAMED = 5


def unreadable_notes(folder: Path) -> list[str]:
    """Say how many run folders cannot be read, and which: their cells count as not run."""
    names = unreadable_runs(folder)
    if not names:
        return []
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    which = visible(", ".join(names[:MOST_NAMED]) + more)
    many = len(names) > 1
    return [
        f"{len(names)} run folder{'s' * many} in {visible(str(folder))} cannot be read and count{'s' * (not many)} for "
        f"nothing (no manifest, or a damaged one): {which}"
    ]


def idle_notes(preset: Preset) -> list[str]:
    """Say which entries of `exclude` match no cell."""
    return [f"note: sweep.exclude[{place}] matches no cell" for place in idle_exclusions(preset)]


def refuse_axes(sweep: SweepSettings, settings: Sequence[str]) -> None:
    """Refuse a setting that every cell overrides, since an axis sets it.

    Raises:
        GradscopeError: Some `-s` is of no effect.
    """
    axes = {
        key: axis
        for axis, values in sweep.axes.items()
        for key in set.intersection(*(set(settings_of(axis, value)) for value in values))
    }
    for text in settings:
        override = parse_override(text)
        for key in settings_of(override.key, override.value):
            if key in axes:
                raise GradscopeError(
                    f"-s {visible(text)}: {key} is set by the axis {visible(axes[key])} of the sweep, in every cell",
                    f"-s 'sweep.axes.\"{visible(axes[key])}\"=[...]' changes the axis",
                )
