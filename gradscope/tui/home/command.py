"""The command line that does what the screen would do."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from gradscope.config.places import LOCAL

USUAL_OUT = Path("traces")


def run_words(name: str, overrides: Sequence[str], out: Path) -> list[str]:
    """Return the words of `gradscope run` for a preset and settings; `--out` only where it is not the usual one."""
    settings = [word for override in overrides for word in ("-s", override)]
    return ["gradscope", "run", _named(name), *settings, *_elsewhere(out)]


def run_line(name: str, overrides: Sequence[str], out: Path) -> str:
    """Return the same as one line for a shell."""
    return shlex.join(run_words(name, overrides, out))


def sweep_words(name: str, out: Path, *, retry_failed: bool = False) -> list[str]:
    """Return the words of `gradscope sweep` for a preset."""
    return ["gradscope", "sweep", _named(name), *(["--retry-failed"] if retry_failed else []), *_elsewhere(out)]


def sweep_line(name: str, out: Path, *, retry_failed: bool = False) -> str:
    """Return the same as one line for a shell."""
    return shlex.join(sweep_words(name, out, retry_failed=retry_failed))


def _named(name: str) -> str:
    return str(LOCAL / f"{name}.toml") if name.startswith("-") else name


def _elsewhere(out: Path) -> list[str]:
    return [] if out == USUAL_OUT else ["--out", str(out)]


def attach_line(run_id: str) -> str:
    """Return the line that follows a running run from any folder."""
    return shlex.join(["gradscope", "attach", run_id])


def show_line(run_id: str, out: Path) -> str:
    """Return the line that prints a run's summary."""
    return shlex.join(["gradscope", "show", run_id, *_elsewhere(out)])
