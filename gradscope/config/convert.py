"""A preset as plain data and as TOML, and back."""

from collections.abc import Mapping
from typing import Any

import msgspec

from gradscope.config.schema import Preset
from gradscope.errors import GradscopeError


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
    """Return the preset as a TOML file that loads to the same settings; what is `None` is left out.

    The name is left out too, since a preset is called what its file is called.
    """
    import tomli_w

    data = _without_none(preset_to_dict(preset))
    del data["name"]
    text: str = tomli_w.dumps(data)
    return text


def _without_none(value: Any) -> Any:
    """Return `value` without the keys that hold `None`, at any depth; TOML cannot say `None`."""
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_none(item) for item in value if item is not None]
    return value
