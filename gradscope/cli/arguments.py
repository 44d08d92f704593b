"""The arguments that several commands share: a run, and the output root."""

from pathlib import Path
from typing import Annotated

import typer

from gradscope.core.paths import home_expanded
from gradscope.errors import GradscopeError

RUN_HELP = "A path, an id, a unique prefix of one, the 6 digits that `gradscope runs` lists, or `last`"
"""What a RUN may be; each command adds what `last` means to it."""


def folder(text: str | Path) -> Path:
    """Return the folder that a user names; `~` is expanded here too, since no shell does after `--out=`.

    Raises:
        GradscopeError: It is empty, or the home of somebody who does not exist.
    """
    if not str(text):
        raise GradscopeError("the name of a folder is empty", "the current one is called .")
    return home_expanded(text)


Out = Annotated[Path, typer.Option("--out", metavar="DIR", parser=folder, help="The output root.")]
LookIn = Annotated[Path, typer.Option("--out", metavar="DIR", parser=folder, help="The output root to look in.")]
