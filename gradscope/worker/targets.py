"""From a name in a preset to the function in the worker that makes the thing."""

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from gradscope.config.catalogue import Entry
from gradscope.config.problem import did_you_mean
from gradscope.errors import GradscopeError


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return `did you mean x?` for the known name closest to `name`, or the list of all of them."""
    known = sorted(known)
    return did_you_mean(name, known) or f"known: {', '.join(known) or 'none'}"


def load_target(kind: str, name: str, entries: Mapping[str, Entry], schemes: Mapping[str, Entry]) -> Any:
    """Import what the catalogue lists under `name`, or under its scheme (`hf:...`).

    Args:
        kind: What it is, for the message: `model`, `data set`.
        name: As in the preset.
        entries: The catalogue's plain names.
        schemes: The catalogue's schemes, without the colon.

    Raises:
        GradscopeError: The catalogue has neither.
    """
    scheme, colon, _ = name.partition(":")
    entry = schemes.get(scheme) if colon else entries.get(name)
    if entry is None:
        known = [*entries, *(f"{scheme}:" for scheme in schemes)]
        raise GradscopeError(f"there is no {kind} '{name}'", suggestion(name, known))
    return import_target(entry)


def import_target(entry: Entry) -> Any:
    """Import what an entry of the catalogue names."""
    module, _, function = entry.target.partition(":")
    return getattr(import_module(module), function)
