"""A preset as plain data and as TOML, and back."""

from collections.abc import Mapping
from typing import Any

import msgspec

from gradscope.config.schema import Preset
from gradscope.errors import GradscopeError

FREE_TABLES = frozenset({"options", "axes", "subset", "numerator", "denominator"})
"""Fields whose tables hold what the user put there: nothing in them is left out."""


def preset_to_dict(preset: Preset) -> dict[str, Any]:
    """Return all settings as plain data, defaults and `None` included, as a manifest holds them."""
    data: dict[str, Any] = msgspec.to_builtins(preset)
    return data


def preset_from_dict(data: Mapping[str, Any]) -> Preset:
    """Return the preset that `preset_to_dict` was given.

    Raises:
        GradscopeError: The data is no preset of this version of gradscope.
    """
    try:
        return msgspec.convert(data, Preset)
    except msgspec.ValidationError as error:
        raise GradscopeError(
            f"these settings are no preset of this version of gradscope: {error}",
            "they were written by another version, or changed by hand",
        ) from error


def preset_to_toml(preset: Preset) -> str:
    """Return the preset as a TOML file that loads to the same settings; what is `None` or empty is left out.

    The name is left out too, since a preset is called what its file is called.
    """
    import tomli_w

    data = _written(preset_to_dict(preset))
    del data["name"]
    text: str = tomli_w.dumps(data)
    return text


def _written(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings without fields that are `None`, which TOML cannot say, or empty, which is their default."""
    kept: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, dict) and key not in FREE_TABLES:
            kept[key] = _written(value)
        elif key == "claim":
            kept[key] = [_written(claim) for claim in value]
        else:
            kept[key] = value
    return {key: value for key, value in kept.items() if value is not None and value not in ({}, [])}
