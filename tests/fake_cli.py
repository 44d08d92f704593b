"""The real command line over made-up workers: `python tests/fake_cli.py BEHAVIOUR run quick ...`."""

import sys
from pathlib import Path
from typing import Any

from gradscope.cli import app, run
from tests import fake_runs


def main() -> None:
    behaviour = sys.argv.pop(1)

    def launch(preset: Any, *, out: Path, argv: Any, foretold_peak_bytes: int | None = None) -> Any:
        return fake_runs.start(out, behaviour, sampling=False)

    run.launch = launch
    app.main()


if __name__ == "__main__":
    main()
