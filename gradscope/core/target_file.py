"""Whether a file that a user names may be written: what is renamed over it replaces whatever is there."""

import os
from collections.abc import Iterable
from pathlib import Path

from gradscope.errors import GradscopeError


def check_target(out: Path, *, force: bool = False, inputs: Iterable[Path] = ()) -> None:
    """Refuse a file that may not be made or replaced.

    Args:
        out: What will be renamed over.
        force: Whether a regular file that is there may be replaced; nothing else ever may.
        inputs: Files that are being read, which are never replaced.

    Raises:
        GradscopeError: It may not be written.
    """
    if out.is_dir():
        raise GradscopeError(f"{out} is a folder", "name the file to write")
    if not out.parent.is_dir():
        raise GradscopeError(f"there is no folder {out.parent}", "make it first")
    if os.path.lexists(out):
        if not out.is_file():  # a device, a pipe, a socket, or a link to one of them or to nothing
            raise GradscopeError(f"{out} is no regular file", "name another file with --out, or redirect stdout")
        if any(source.exists() and out.samefile(source) for source in inputs):
            raise GradscopeError(f"{out} is the trace itself, which is never changed", "name another file with --out")
        if not force:
            raise GradscopeError(f"{out} exists", "--force replaces it")
    if not os.access(out.parent, os.W_OK):
        raise GradscopeError(f"the folder {out.parent} cannot be written to", "name another file with --out")
