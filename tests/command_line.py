"""The command line in this process: quick, and what it prints is what `capsys` captures."""

import sys
from pathlib import Path

from gradscope.cli.app import main


def gradscope(*arguments: str | Path) -> int:
    """Run `gradscope` with these arguments and return its exit code."""
    before, sys.argv = sys.argv, ["gradscope", *map(str, arguments)]
    try:
        main()
    except SystemExit as left:
        return int(left.code or 0)
    finally:
        sys.argv = before
    return 0


def gradscope_trace(*arguments: str | Path) -> int:
    """Run `gradscope trace` and return its exit code."""
    return gradscope("trace", *arguments)
