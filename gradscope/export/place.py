"""Where an export goes: a file or a folder of the user's choice, all of it or nothing, never over anything unasked."""

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from gradscope.core.target_file import check_target
from gradscope.errors import GradscopeError

STAGING_PREFIX = ".gradscope-export-"
"""Of the folder beside the target in which files are written before they are renamed."""

Writer = Callable[[Path], None]
"""Writes one file at the path it is given."""


def is_folder(target: Path) -> bool:
    """Whether a target means a folder to put files in: it is one, or nothing is there and its name has no ending."""
    return target.is_dir() or (not os.path.lexists(target) and not target.suffix)


def write_files(
    folder: Path, files: Mapping[str, Writer], *, force: bool = False, keep: Path | None = None
) -> list[Path]:
    """Write files into a folder: first beside each other under a name that nobody looks at, then renamed, all at once.

    Args:
        folder: The folder; made if it is missing, and removed again if nothing was written.
        files: Name of each file, which may lie in a folder below, and what writes it.
        force: Whether regular files that are there may be replaced.
        keep: A run directory or a trace, which is never written to: no file right in it, not the trace itself.

    Returns:
        The files, in the order given.

    Raises:
        GradscopeError: One of them may not be written; nothing was written then.
        OSError: One of them cannot be written; nothing was written then.
    """
    made = [path for path in {folder, *((folder / name).parent for name in files)} if not path.exists()]
    made.sort(key=lambda path: len(path.parts))
    if folder in made:
        _check_new(folder)
    targets = [folder / name for name in files]
    for target in targets:
        _check_kept(target, keep)
        if target.parent.exists():
            check_target(target, force=force, inputs=[keep] if keep is not None and keep.is_file() else [])
    done = False
    try:
        for path in made:
            path.mkdir()
        staging = Path(tempfile.mkdtemp(prefix=STAGING_PREFIX, dir=folder))
        try:
            staged = [staging / str(number) / target.name for number, target in enumerate(targets)]
            for path, write in zip(staged, files.values(), strict=True):
                path.parent.mkdir()
                write(path)
            for path, target in zip(staged, targets, strict=True):
                path.replace(target)
            done = True
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    finally:
        for path in reversed(made if not done else []):
            with suppress(OSError):  # what went wrong before is what is reported
                path.rmdir()
    return targets


def write_file(target: Path, write: Writer, *, force: bool = False, keep: Path | None = None) -> list[Path]:
    """Write one file at a path of the user's choice, as `write_files` does; its folder is not made.

    Raises:
        GradscopeError: It may not be written.
        OSError: It cannot be written.
    """
    if not target.parent.is_dir():
        raise GradscopeError(f"there is no folder {target.parent}", "make it first")
    return write_files(target.parent, {target.name: write}, force=force, keep=keep)


def _check_new(folder: Path) -> None:
    if folder.is_symlink():
        raise GradscopeError(f"{folder} is a link to nothing", "name another folder")
    if folder.parent.exists() and not folder.parent.is_dir():
        raise GradscopeError(f"{folder.parent} is no folder", "name another folder")
    if not folder.parent.exists():
        raise GradscopeError(f"there is no folder {folder.parent}", "make it first")


def _check_kept(target: Path, keep: Path | None) -> None:
    """Refuse a run's own files, also those it does not have yet."""
    if keep is None or not keep.is_dir() or not target.parent.exists():
        return
    if target.parent.samefile(keep):
        raise GradscopeError(
            f"{keep} is the run's own folder, which is never changed", "name a folder below it, such as export"
        )
