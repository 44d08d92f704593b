"""The command line that does what the screen would do."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from gradscope.config.places import LOCAL

USUAL_OUT = Path("traces")


def run_words(name: str, overrides: Sequence[str], out: Path) -> list[str]:
    """Return the words of `gradscope run` for a preset and settings; `--out` only where it is not the usual one."""
    named = str(LOCAL / f"{name}.toml") if name.startswith("-") else name
    settings = [word for override in overrides for word in ("-s", override)]
    elsewhere = [] if out == USUAL_OUT else ["--out", str(out)]
    return ["gradscope", "run", named, *settings, *elsewhere]


def run_line(name: str, overrides: Sequence[str], out: Path) -> str:
    """Return the same as one line for a shell."""
    return shlex.join(run_words(name, overrides, out))


def attach_line(run_id: str) -> str:
    """Return the line that follows a running run from any folder."""
    return shlex.join(["gradscope", "attach", run_id])


def show_line(run_id: str, out: Path) -> str:
    """Return the line that prints a run's summary."""
    elsewhere = [] if out == USUAL_OUT else ["--out", str(out)]
    return shlex.join(["gradscope", "show", run_id, *elsewhere])
