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
