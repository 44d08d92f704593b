"""`gradscope presets`: what there is to run, a preset as it resolves, and the names a preset may use."""

import json
import sys
from dataclasses import asdict
from typing import Annotated, Any

import typer

from gradscope.cli.display import columns_of
from gradscope.config.catalogue import KINDS
from gradscope.config.convert import preset_to_dict, preset_to_toml
from gradscope.config.grid import cells
from gradscope.config.load import load_preset
from gradscope.config.places import preset_names, preset_path
from gradscope.config.problem import did_you_mean, either
from gradscope.config.torch_optim import torch_optimizers
from gradscope.core.table import format_table
from gradscope.core.text import visible
from gradscope.errors import GradscopeError


def command(
    name: Annotated[str | None, typer.Argument(help="A preset's name or path: show it as TOML, complete.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("-s", "--set", metavar="KEY=VALUE", help="Change one setting; may be repeated.")
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--list", metavar="KIND", help=f"List what a preset can name: {either(KINDS)}.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List presets, show one, or list what a preset can name."""
    if kind is not None and name is not None:
        raise GradscopeError("--list and the name of a preset exclude each other", "leave one of them out")
    if settings and name is None:
        raise GradscopeError(
            "-s changes a preset, and none is named", "for example: gradscope presets quick -s run.seed=1"
        )
    if name is not None:
        preset = load_preset(name, settings or ())
        typer.echo(_json(preset_to_dict(preset)) if as_json else preset_to_toml(preset), nl=as_json)
    elif kind is not None:
        typer.echo(_entries(kind, as_json))
    else:
        typer.echo(_presets(as_json))


def _presets(as_json: bool) -> str:
    """Describe every preset that a name leads to; one that is wrong is listed with what is wrong."""
    found = [_describe(name) for name in preset_names()]
    if as_json:
        return _json(found)
    rows = [
        [item["name"], item["model"] or "", f"{item['cells']} cells" if item["cells"] else "", _summary(item)]
        for item in found
    ]
    return format_table(["PRESET", "MODEL", "GRID", "DESCRIPTION"], rows, "llrl", columns_of(sys.stdout))


def _summary(item: dict[str, Any]) -> str:
    return f"cannot be used: {item['error']}" if item["error"] else item["description"]


def _describe(name: str) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "name": name,
        "path": str(preset_path(name)),
        "description": "",
        "model": None,
        "cells": None,
    }
    try:
        preset = load_preset(name)
        count = None if preset.sweep is None else len(cells(preset))
    except GradscopeError as error:
        return {**facts, "error": error.message}
    models = preset.model.name if preset.sweep is None else "several"
    scale = "" if ":" in preset.model.name else f" ({preset.model.scale})"
    return {**facts, "description": preset.description, "model": models + scale, "cells": count, "error": None}


def _entries(kind: str, as_json: bool) -> str:
    """List the catalogue's entries of one kind."""
    if kind not in KINDS:
        raise GradscopeError(f'--list: found "{visible(kind)}", allowed {either(KINDS)}', did_you_mean(kind, KINDS))
    entries = [(scheme, entry) for scheme, group in enumerate(KINDS[kind]) for entry in group.values()]
    if as_json:
        return _json([{**asdict(entry), "scheme": bool(scheme)} for scheme, entry in entries])
    rows = [
        [f"{entry.name}:" if scheme else entry.name, f"{entry.summary}; needs {entry.needs}".removesuffix("; needs ")]
        for scheme, entry in entries
    ]
    if kind == "optimizers":
        rows.append(["CLASS", f"a class of torch.optim by its name: {', '.join(torch_optimizers())}"])
    return format_table(["NAME", "WHAT IT IS"], rows, width=columns_of(sys.stdout))


def _json(value: Any) -> str:
    return json.dumps(value, indent=2)
