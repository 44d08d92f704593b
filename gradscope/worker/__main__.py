"""`python -m gradscope.worker RUN_DIR [--parent-fd N]`: started by the supervisor, not by hand."""

import argparse
import sys
import time
from pathlib import Path

from gradscope.worker.orphan import die_with_supervisor


def main() -> int:
    """Parse the command line, import torch and work."""
    parser = argparse.ArgumentParser(prog="gradscope.worker", description="Train one run (started by its supervisor).")
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--parent-fd", type=int)
    arguments = parser.parse_args()
    if arguments.parent_fd is not None:
        die_with_supervisor(arguments.parent_fd)
    started = time.perf_counter()
    from gradscope.worker.main import work

    return work(arguments.run_dir, arguments.parent_fd, time.perf_counter() - started)


if __name__ == "__main__":
    sys.exit(main())
