"""`manifest.json`: what was asked for, by whom, where; written once, before anything runs."""

from pathlib import Path
from typing import Any

import msgspec

from gradscope.core.status import SCHEMA_VERSION
from gradscope.rundir.files import read_json, write_json
from gradscope.rundir.layout import MANIFEST


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about a run that is known before it starts."""

    schema: int = SCHEMA_VERSION
    run_id: str
    preset: dict[str, Any]
    """The resolved preset as plain data."""
    argv: list[str] = []
    """The command line that asked for the run."""
    created_wall_ns: int
    host: str
    boot_id: str
    versions: dict[str, str] = {}
    """Installed versions by distribution; what the worker really imported is in its first event."""
    git: str | None = None
    """Commit of the working directory, `-dirty` appended where tracked files differ; `None` outside a repository."""
    cwd: str = ""
    env: dict[str, str] = {}
    """Environment variables that pick devices or threads, as far as set."""
    foretold_peak_bytes: int | None = None
    """Peak memory foretold before the run, if it was."""
    cell: str | None = None
    """In a sweep, the cell's name: a hash of the settings that change what the run does."""
    settings: list[str] = []
    """In a sweep, what the cell sets beside the grid's base, as `-s` texts."""


def write_manifest(run_dir: Path, manifest: Manifest) -> None:
    """Write `manifest.json`.

    Raises:
        OSError: The run directory cannot be written.
    """
    write_json(run_dir / MANIFEST, manifest)


def read_manifest(run_dir: Path) -> Manifest | None:
    """Return the manifest; `None` if it is missing or damaged."""
    return read_json(run_dir / MANIFEST, Manifest)
