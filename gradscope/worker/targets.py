"""From a name in a preset to the function in the worker that makes the thing."""

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from gradscope.config.catalogue import Entry
from gradscope.errors import GradscopeError


def nearest(name: str, known: Mapping[str, Any] | list[str]) -> str:
    """Return `did you mean 'x'?` for the known name closest to `name`, or the list of all of them."""
    close = get_close_matches(name, list(known), n=1)
    return f"did you mean '{close[0]}'?" if close else f"known: {', '.join(sorted(known)) or 'none'}"


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
        raise GradscopeError(f"there is no {kind} '{name}'", nearest(name, known))
    module, _, function = entry.target.partition(":")
    return getattr(import_module(module), function)
