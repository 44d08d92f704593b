"""Reading what the home screen shows. Blocking; called on one thread at a time."""

from dataclasses import replace
from pathlib import Path
from typing import Protocol

from gradscope.analysis.expect import Outlook, outlook
from gradscope.analysis.machine import Machine
from gradscope.analysis.run_list import Listed, RunList
from gradscope.config.catalogue import MODELS
from gradscope.config.grid import cells
from gradscope.config.load import load_preset
from gradscope.config.places import LOCAL, preset_names, preset_path, shipped_folder
from gradscope.errors import GradscopeError
from gradscope.tui.home.running import RunningRuns
from gradscope.tui.home.view import BROKEN, GRIDS, START, HomeView, PresetItem, group_of

MOST_RECENT = 100
"""Runs that are listed; all of them are on the screen of runs."""


class HomeSource(Protocol):
    """What the home screen reads from."""

    def read(self) -> HomeView:
        """Return what there is now."""


class HomeReader:
    """Reads presets, runs and the machine; what has not changed is kept.

    The first call leaves the machine out, since a driver may take its time to answer: the screen is there before.
    """

    def __init__(self, out: Path) -> None:
        self._out = out
        self._list = RunList(out)
        self._machine: Machine | None = None
        self._calls = 0
        self._files: tuple[tuple[str, int], ...] = ()
        self._presets: tuple[PresetItem, ...] = ()
        self._problem = ""
        self._running = RunningRuns(out)
        self._outlooks: dict[str, Outlook] = {}
        self._outlooks_of: object = None

    def read(self) -> HomeView:
        """Return what there is now."""
        self._calls += 1
        if self._calls > 1 and self._machine is None:
            self._machine = _look_at_machine()
        self._read_presets()
        listed = self._list.read(MOST_RECENT)
        return HomeView(
            running=self._running.read(listed.going),
            presets=tuple(self._with_outlooks(listed)),
            recent=listed.runs,
            total=listed.total,
            machine=self._machine,
            problem=self._problem,
            unreadable=listed.problem,
        )

    def _read_presets(self) -> None:
        try:
            files = _preset_files()
            if files != self._files:
                self._presets = tuple(sorted(map(_item, preset_names()), key=_place))
                self._files, self._problem = files, ""
        except GradscopeError as error:  # the installation lacks its presets: the user's own runs still show
            self._presets, self._problem = (), f"{error.message}\n{error.hint}"
        except OSError as error:
            self._presets, self._problem = (), f"presets cannot be listed: {error.strerror}"

    def _with_outlooks(self, listed: Listed) -> list[PresetItem]:
        if self._machine is None:
            return list(self._presets)
        over = tuple((run.row.path, run.row.status) for run in listed.runs)
        if self._outlooks_of != (self._presets, over):
            self._outlooks = {
                item.name: outlook(item.preset, self._machine, self._out)
                for item in self._presets
                if item.preset is not None
            }
            self._outlooks_of = (self._presets, over)
        return [replace(item, outlook=self._outlooks.get(item.name)) for item in self._presets]


def _look_at_machine() -> Machine:
    from gradscope.analysis.machine_look import look_at_machine  # NVML's bindings: not before the first paint

    return look_at_machine()


def _preset_files() -> tuple[tuple[str, int], ...]:
    """Return the files of presets with the times of their last writing."""
    found = (path for folder in (LOCAL, shipped_folder()) for path in sorted(folder.glob("*.toml")))
    return tuple((str(path), _written_ns(path)) for path in found)


def _written_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:  # a link that leads nowhere: listed with what is wrong
        return 0


def _item(name: str) -> PresetItem:
    """Read one preset; one that is wrong is an item too, with what is wrong."""
    path = LOCAL / f"{name}.toml"
    try:
        path = preset_path(name)
        preset = load_preset(name)
        count = None if preset.sweep is None else len(cells(preset))
    except GradscopeError as error:
        return PresetItem(name=name, path=path, local=_is_local(path), message=error.message, hint=error.hint)
    return PresetItem(name=name, path=path, local=_is_local(path), preset=preset, cells=count)


def _is_local(path: Path) -> bool:
    return path.parent == LOCAL


def _place(item: PresetItem) -> tuple[int, str, int, str]:
    """Order presets: the first one, those of each model, other models, grids, and what cannot be used."""
    group = group_of(item)
    order = {START: 0, GRIDS: 3, BROKEN: 4}.get(group, 1 if group in MODELS else 2)
    model = f"{list(MODELS).index(group)}" if group in MODELS else group
    full = item.preset is not None and item.preset.model.scale == "full"
    return order, model, int(full), item.name
