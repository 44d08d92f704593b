"""Settings that were changed in the forms of presets, kept until the app ends."""

from collections.abc import Mapping

from gradscope.errors import GradscopeError
from gradscope.tui.home.form import Form, open_form
from gradscope.tui.home.view import HomeView, PresetItem


class Edits:
    """What was written in the forms, as they were left."""

    def __init__(self) -> None:
        self._changes: dict[str, Mapping[str, str]] = {}

    def keep(self, form: Form) -> None:
        """Take in a change."""
        self._changes[form.name] = form.changed

    def of(self, name: str) -> Mapping[str, str] | None:
        """Return what was written in a preset's form."""
        return self._changes.get(name)

    def marked(self, view: HomeView) -> frozenset[str]:
        """Return the names of presets that are started with changes; a grid's sweep takes none."""
        return frozenset(item.name for item in view.presets if item.cells is None and self._changes.get(item.name))

    def form(self, item: PresetItem) -> Form | None:
        """Return a preset's form where something was changed in it; `None` too where its file is wrong now."""
        if item.cells is not None or not self._changes.get(item.name):
            return None
        try:
            return open_form(item.name, self._changes[item.name])
        except GradscopeError:
            return None
