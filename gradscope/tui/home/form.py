"""A preset being edited: what was changed, what it comes to, and what is wrong with it. Frozen; no textual in here."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gradscope.config.fields import Field, fields, values
from gradscope.config.load import load_preset
from gradscope.config.schema import BudgetSettings, Preset
from gradscope.errors import GradscopeError

BUDGETS = tuple(f"budget.{name}" for name in BudgetSettings.__struct_fields__)
"""Settings of which there is only one: setting another one takes back the one that was set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """Made by `open_form`; each change gives a new one."""

    name: str
    """The preset's, as `gradscope run` takes it."""
    own: Mapping[str, str]
    """Values of all fields in the preset as its file has it, written as after `-s KEY=`."""
    preset: Preset
    """What it came to when nothing was wrong last."""
    changed: Mapping[str, str] = field(default_factory=dict)
    """What was written, by field."""
    error: GradscopeError | None = None
    """What the command line would say of it."""
    _values: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def overrides(self) -> tuple[str, ...]:
        """The changes as the command line takes them after `-s`."""
        return tuple(f"{key}={text}" for key, text in self.changed.items())

    def text(self, key: str) -> str:
        """Return what a field holds: what was written, else what it comes to."""
        return self.changed.get(key, self._values.get(key, ""))

    def differs(self, key: str) -> bool:
        """Whether a field holds something else than in the preset's file, by itself or by another change."""
        return self.text(key) != self.own.get(key, "")

    def with_value(self, key: str, text: str) -> "Form":
        """Return the form with one field set; setting it to the preset's own value takes the change back."""
        kept = {other: value for other, value in self.changed.items() if other != key}
        if key in BUDGETS and text != "none":
            kept = {other: value for other, value in kept.items() if other not in BUDGETS}
        if text == self.own.get(key):
            return self._checked(kept)
        if key in self.changed and set(kept) | {key} == set(self.changed):  # a field keeps its place in the line
            kept = {other: text if other == key else value for other, value in self.changed.items()}
        else:
            kept[key] = text
        return self._checked(kept)

    def without(self, key: str) -> "Form":
        """Return the form with one change taken back."""
        return self._checked({other: value for other, value in self.changed.items() if other != key})

    def cleared(self) -> "Form":
        """Return the form with all changes taken back."""
        return self._checked({})

    def _checked(self, changed: Mapping[str, str]) -> "Form":
        form = replace(self, changed=dict(changed), error=None)
        try:
            preset = load_preset(self.name, form.overrides)
        except GradscopeError as error:
            return replace(form, error=error)
        return replace(form, preset=preset, _values=values(preset))


def open_form(name: str, changed: Mapping[str, str] | None = None) -> Form:
    """Return the form of a preset, with changes made before.

    Raises:
        GradscopeError: There is no such preset, or something in its file is wrong.
    """
    preset = load_preset(name)
    own = values(preset)
    form = Form(name=name, own=own, preset=preset, _values=own)
    return form._checked(changed) if changed else form


def find_fields(words: str) -> tuple[Field, ...]:
    """Return the fields that have all the words in their key or help; all fields for none."""
    wanted = words.lower().split()
    return tuple(one for one in fields() if all(word in f"{one.key} {one.help}".lower() for word in wanted))


def next_choice(one: Field, text: str, direction: int) -> str | None:
    """Return the choice after (1) or before (-1) a value; the first for a value of its own; `None` without choices."""
    texts = [choice.text for choice in one.choices]
    if not texts:
        return None
    if text not in texts:
        return texts[0]
    return texts[(texts.index(text) + direction) % len(texts)]
