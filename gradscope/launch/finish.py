"""`python -m gradscope.launch.finish RUN_DIR`: writes up a run that is over, whole or cut short.

A process of its own, so that neither the size of a trace nor a fault in an exporter can touch the supervisor. Says on
stdout, one JSON object a line, which step it begins and what went wrong; tracebacks go to stderr, which the supervisor
appends to `worker.log`. May be run by hand on any run directory.
"""

import argparse
import json
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from gradscope.core.status import Status, StatusRecord
from gradscope.core.text import visible
from gradscope.errors import GradscopeError
from gradscope.rundir.handle import RunHandle

LONGEST_NOTE = 300
MOST_NOTES = 20


Step = Callable[[Path, StatusRecord], list[str]]
"""Writes one thing from a run directory and the run's verdict; returns notes."""


def summarise(run_dir: Path, verdict: StatusRecord) -> list[str]:
    """Write `summary.json`."""
    from gradscope.analysis.summary import summarise_run

    summarise_run(run_dir, verdict)
    return []


def write_tensorboard(run_dir: Path, verdict: StatusRecord) -> list[str]:
    """Write TensorBoard's files."""
    del verdict
    from gradscope.export.tensorboard import write_run

    write_run(run_dir)
    return []


def enrich_traces(run_dir: Path, verdict: StatusRecord) -> list[str]:
    """Repair and enrich the profiler's traces; their sizes in `summary.json` are then those they have now."""
    del verdict
    if not RunHandle(run_dir).traces():
        return []
    from gradscope.analysis.summary import update_trace_sizes
    from gradscope.export.chrome import enrich_run

    notes = enrich_run(run_dir)
    update_trace_sizes(run_dir)
    return notes


STEPS: dict[str, Step] = {
    "the summary": summarise,
    "TensorBoard's files": write_tensorboard,
    "the enriched traces": enrich_traces,
}
"""Cheapest first: a run that is being stopped may not have time for all of them."""


def finish(run_dir: Path, steps: dict[str, Step] = STEPS) -> Iterator[dict[str, str]]:
    """Do all steps, each whatever became of the others; yield what happens: `{"started": step}`, `{"note": text}`."""
    verdict = verdict_of(RunHandle(run_dir))
    for name, step in steps.items():
        yield {"started": name}
        try:
            notes = step(run_dir, verdict)
        except (GradscopeError, OSError) as error:  # no fault of ours: a full disk, say
            notes = [f"{name} could not be written: {error}"]
        except Exception as error:  # an exporter's fault must hide neither the other exports nor the run's own result
            traceback.print_exc()
            notes = [f"{name} could not be written: {type(error).__name__}: {error}"]
        yield from ({"note": visible(note)[:LONGEST_NOTE]} for note in notes[:MOST_NOTES])


def verdict_of(handle: RunHandle) -> StatusRecord:
    """Return what the run came to: while its supervisor waits for us, that is in `verdict`."""
    record = handle.recorded_status()
    if record is not None and record.status is Status.EXPORTING and record.verdict is not None:
        return msgspec.structs.replace(record, status=record.verdict, verdict=None)
    return handle.status()


def leave_with(parent_fd: int) -> None:
    """End this process when its supervisor has died: the pipe, whose other end only that holds, is then at its end."""

    def watch() -> None:
        while os.read(parent_fd, 1):
            pass
        os._exit(1)

    threading.Thread(target=watch, name="parent", daemon=True).start()


def main() -> int:
    """Parse the command line and finish the run."""
    parser = argparse.ArgumentParser(prog="gradscope.launch.finish", description="Write up a run that is over.")
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--parent-fd", type=int)
    arguments = parser.parse_args()
    if arguments.parent_fd is not None:
        leave_with(arguments.parent_fd)
    said = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints belongs into the log, not among our lines
    for event in finish(arguments.run_dir):
        print(json.dumps(event), file=said, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
