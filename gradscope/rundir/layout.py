"""The names in a run directory `OUT/<preset>/<utc>-<short id>/`, and how a new one is made."""

import errno
import re
import secrets
import time
from datetime import UTC, datetime
from pathlib import Path

from gradscope.core.clock import utc_stamp
from gradscope.errors import ExitCode, GradscopeError

MANIFEST = "manifest.json"
EVENTS = "events.jsonl"
CONTROL = "control.jsonl"
SAMPLES = "samples.jsonl"
STATUS = "status.json"
WORKER_LOG = "worker.log"
SUMMARY = "summary.json"
RESERVE = ".reserve"
"""Space held while a run goes on, so that its end can be written to a full disk."""
MEMORY_FOLDER = "memory"
TRACE_GLOB = "*.pt.trace.json.gz"

RUN_ID = re.compile(r"^\d{8}T\d{6}Z-[0-9a-f]{6}$")
"""What the last part of a run directory's path looks like; also the run's id."""


def short_id(run_id: str) -> str:
    """Return what tells runs of one second apart and fits in a table: the last part of a run's id."""
    return run_id.rpartition("-")[2]


def safe_name(text: str) -> str:
    """Return `text` as one path part that every tool accepts: letters, digits, `-`, `_`; never empty."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-") or "run"


def create_run_directory(out: Path, preset_name: str) -> Path:
    """Make a new, empty run directory below `out` and return its absolute path.

    Two runs started in the same second get different ids; `mkdir` decides, so neither can take the other's folder.

    Raises:
        GradscopeError: `out` cannot be written, or its path is no text that JSON could hold.
    """
    parent = out / safe_name(preset_name)
    try:
        str(parent.resolve()).encode()
        parent.mkdir(parents=True, exist_ok=True)
        while True:
            path = parent / f"{utc_stamp(time.time_ns())}-{secrets.token_hex(3)}"
            try:
                path.mkdir()
            except FileExistsError:
                continue
            return path.resolve()
    except UnicodeEncodeError as error:
        raise GradscopeError(
            f"the path of the output root {out.absolute()} is not valid UTF-8", "choose another one with --out"
        ) from error
    except OSError as error:
        raise GradscopeError(
            f"cannot make a run directory below {out}: {error.strerror}",
            writing_remedy(error),
            exit_code=ExitCode.ENVIRONMENT,
        ) from error


def writing_remedy(error: OSError) -> str:
    """Return what to do about a file below an output root that could not be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free some space, or choose another output root with --out"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "ask for leave to write there, or choose another output root with --out"
    return "choose another output root with --out"


def created_wall_ns(run_id: str) -> int | None:
    """Return when a run directory was made, to the second, from its name; `None` if it is no run's id."""
    if RUN_ID.match(run_id) is None:
        return None
    try:
        moment = datetime.strptime(run_id.partition("-")[0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:  # the 99th of some month
        return None
    return int(moment.timestamp()) * 1_000_000_000


def trace_name(run_id: str, window: int, wall_ns: int) -> str:
    """Return the file name under which torch-tb-profiler finds a trace: `<worker>.<stamp>.pt.trace.json.gz`.

    The worker part holds no dot, since the plugin would take what follows it for the stamp (pytorch/kineto#347).
    """
    return f"{safe_name(run_id)}-w{window}.{wall_ns // 1_000_000}.pt.trace.json.gz"


def tensorboard_file(wall_ns: int) -> str:
    """Return the name of a run's TensorBoard file; the same at every export, so that a new one replaces the old."""
    return f"events.out.tfevents.{wall_ns // 1_000_000_000:010d}.gradscope"
