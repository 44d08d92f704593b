"""Paths as people write them."""

from pathlib import Path

from gradscope.errors import GradscopeError


def home_expanded(text: str | Path) -> Path:
    """Return a path with a leading `~` or `~somebody` expanded: no shell does that inside `KEY=VALUE`.

    Raises:
        GradscopeError: It is in the home of somebody who does not exist.
    """
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise GradscopeError(f"there is no home folder for {text}", f"./{text} is the path of that name") from error


def shown_path(path: Path) -> Path:
    """Return `path` relative to the working directory where it lies below it."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
