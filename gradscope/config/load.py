"""From a preset's name to a `Preset`: find its file, follow `extends`, apply overrides, check everything."""

import os
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gradscope.config.check import find_problem, with_nones
from gradscope.config.convert import preset_from_dict, preset_to_dict
from gradscope.config.layers import DEEPEST, NOT_PASSED_ON, Layer, defaults, merge, source_of, too_deep
from gradscope.config.overrides import nested, parse_override
from gradscope.config.places import candidates, preset_path
from gradscope.config.problem import shown
from gradscope.config.rules import first_broken_rule
from gradscope.config.schema import Preset
from gradscope.core.text import visible
from gradscope.errors import GradscopeError

TOML_PLACE = re.compile(r"(?P<what>.*) \(at (?P<place>.*)\)", re.DOTALL)

LARGEST_FILE_BYTES = 1_000_000


def load_preset(name_or_path: str, overrides: Sequence[str] = ()) -> Preset:
    """Return the preset of a name or path, complete and checked.

    Args:
        name_or_path: A path (it ends in `.toml` or holds a slash), a name in `./presets` or of a shipped preset.
        overrides: `KEY=VALUE` texts, as after `-s`.

    Raises:
        GradscopeError: There is no such preset, or something in it is wrong; the message names file, key, what
            was found and what is allowed.
    """
    path = preset_path(name_or_path)
    own, *extended = _file_layers(path)
    named = Layer(own.source, {"name": path.stem, **own.data})
    return _build([defaults(), *reversed(extended), named, _override_layer(overrides)], own.source)


def apply_overrides(preset: Preset, overrides: Sequence[str]) -> Preset:
    """Return `preset` with overrides applied and everything checked again: what `load_preset` gives with both."""
    return _build([defaults(), Layer(preset.name, preset_to_dict(preset)), _override_layer(overrides)], preset.name)


def _build(layers: Sequence[Layer], source: str) -> Preset:
    """Merge, check and convert; `source` is where problems are that no other layer brought in."""
    data = with_nones(merge(layers))
    problem = find_problem(data)
    if problem is None:
        preset = preset_from_dict(data)
        problem = first_broken_rule(preset)
        if problem is None:
            return preset
    raise problem.error(source_of(layers, problem.keys[0], source))


def _override_layer(overrides: Sequence[str]) -> Layer:
    parsed = [parse_override(text) for text in overrides]
    data = nested(parsed)
    if too_deep(data):
        raise GradscopeError(f"-s: found tables nested more than {DEEPEST} deep, allowed at most {DEEPEST}")
    return Layer("-s", data, {override.key: override.text for override in parsed})


def _file_layers(path: Path) -> list[Layer]:
    """Read a preset and all that it extends, itself first."""
    layers: list[Layer] = []
    seen: dict[tuple[int, int], Path] = {}
    while True:
        data, identity = _read(path)
        seen[identity] = path
        kept = data if not layers else {key: value for key, value in data.items() if key not in NOT_PASSED_ON}
        layers.append(Layer(str(path), {key: value for key, value in kept.items() if key != "extends"}))
        if "extends" not in data:
            return layers
        path = _extended(path, data["extends"], seen)


def _extended(path: Path, extends: Any, seen: dict[tuple[int, int], Path]) -> Path:
    """Return the file that a preset extends; it may be the shipped one that the preset hides by its name."""
    source = visible(str(path))
    if not isinstance(extends, str) or not extends:
        raise GradscopeError(f"extends in {source}: found {shown(extends)}, allowed the name or path of a preset")
    files = list(candidates(extends, path.parent))
    for file in files:
        if _identity(file) not in seen:
            return file
    if files:
        chain = " -> ".join(visible(str(file)) for file in (*seen.values(), files[0]))
        raise GradscopeError(f"extends in {source}: found {shown(extends)}, which leads back to itself: {chain}")
    beside = path.parent / f"{extends}.toml"
    try:
        preset_path(extends)
    except GradscopeError as error:
        hint = f'write extends = "{visible(beside.name)}"' if _is_beside(beside) else error.hint
        raise GradscopeError(f"extends in {source}: {error.message}", hint, exit_code=error.exit_code) from error
    raise GradscopeError(f"extends in {source}: there is no preset file {shown(extends)}")


def _is_beside(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def _read(path: Path) -> tuple[dict[str, Any], tuple[int, int]]:
    """Read one TOML file; returns its data and which file it was."""
    source = visible(str(path))
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            raw = file.read(LARGEST_FILE_BYTES + 1)
    except OSError as error:
        raise GradscopeError(f"cannot read the preset {source}: {error.strerror}") from error
    if len(raw) > LARGEST_FILE_BYTES:
        raise GradscopeError(f"{source}: found more than {LARGEST_FILE_BYTES} bytes, allowed a preset in TOML")
    data = _parse(raw, source)
    if too_deep(data):
        raise GradscopeError(f"{source}: found tables nested more than {DEEPEST} deep, allowed at most {DEEPEST}")
    return data, (status.st_dev, status.st_ino)


def _parse(raw: bytes, source: str) -> dict[str, Any]:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise GradscopeError(f"{source}, line {line}: found bytes that are no UTF-8, allowed TOML") from error
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = TOML_PLACE.fullmatch(str(error))
        what, place = (found["what"], found["place"]) if found else (str(error), "")
        raise GradscopeError(
            f"{source}{', ' if place else ''}{place}: this is no TOML: {visible(what)}", _line_hint(text, place)
        ) from error
    except (ValueError, RecursionError) as error:  # an integer of thousands of digits, or brackets thousands deep
        raise GradscopeError(f"{source}: found a value that is too large or nested too deeply, allowed TOML") from error


def _line_hint(text: str, place: str) -> str:
    """Return the line that TOML's parser stopped at."""
    number = re.match(r"line (\d+)", place)
    lines = text.splitlines()
    if number is None or not 1 <= int(number[1]) <= len(lines):
        return ""
    return f"the line is: {visible(lines[int(number[1]) - 1])[:100]}"
