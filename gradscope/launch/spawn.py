"""Starting a run: its directory, its manifest, its supervisor in a session of its own."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from gradscope.config.convert import preset_to_dict
from gradscope.config.schema import Preset
from gradscope.core.status import Status
from gradscope.errors import ExitCode, GradscopeError
from gradscope.launch.handshake import READY, hear
from gradscope.launch.statusfile import StatusFile
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.host import boot_id, host_name, process_id
from gradscope.rundir.layout import WORKER_LOG, create_run_directory, writing_remedy
from gradscope.rundir.manifest import Manifest, write_manifest

READY_SECONDS = 30.0
"""How long a supervisor may take to start a worker; normally 0.2 s."""

DISTRIBUTIONS = ("gradscope-tui", "torch", "transformers", "tensorboard", "torch-tb-profiler", "nvidia-ml-py", "polars")

ENVIRONMENT = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "NVIDIA_VISIBLE_DEVICES",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "SLURM_JOB_ID",
)
"""Variables that change what a run measures, or where."""

_supervisors: list[subprocess.Popen[bytes]] = []
"""Those this process started and has not reaped: a front end may outlive many."""


def launch(
    preset: Preset,
    *,
    out: Path,
    argv: Sequence[str] = (),
    foretold_peak_bytes: int | None = None,
    start: Callable[[Path], None] | None = None,
) -> RunHandle:
    """Start a run and return at once; it goes on whatever becomes of this process.

    Args:
        preset: What to run, resolved.
        out: Output root.
        argv: The command line to record.
        foretold_peak_bytes: Peak memory as an estimate has it, if one was made.
        start: Starts the supervisor; `start_supervisor` if not given.

    Raises:
        GradscopeError: The run directory cannot be written, or the run cannot be started.
    """
    run_dir = create_run_directory(out, preset.name)
    try:
        write_manifest(run_dir, make_manifest(run_dir.name, preset, argv, foretold_peak_bytes))
    except OSError as error:
        raise GradscopeError(
            f"cannot write to {run_dir}: {error.strerror}",
            writing_remedy(error),
            exit_code=ExitCode.ENVIRONMENT,
        ) from error
    status = StatusFile(run_dir, process_id())
    status.write(Status.STARTING)  # until the supervisor takes over, this process stands for the run
    try:
        (start or start_supervisor)(run_dir)
    except GradscopeError as error:
        if not RunHandle(run_dir).status().status.is_final:
            status.write(Status.FAILED, reason=error.message, hint=error.hint, exit_code=int(error.exit_code))
        raise
    return RunHandle(run_dir)


def make_manifest(run_id: str, preset: Preset, argv: Sequence[str], foretold_peak_bytes: int | None = None) -> Manifest:
    """Return what is known of a run before it starts."""
    return Manifest(
        run_id=run_id,
        preset=preset_to_dict(preset),
        argv=[_as_text(word) for word in argv],
        created_wall_ns=time.time_ns(),
        host=host_name(),
        boot_id=boot_id(),
        versions=installed_versions(),
        git=git_commit(Path.cwd()),
        cwd=_as_text(str(Path.cwd())),
        env={name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
        foretold_peak_bytes=foretold_peak_bytes,
    )


def _as_text(name: str) -> str:
    """Return a name with its undecodable bytes written out, since JSON cannot hold them."""
    return name.encode(errors="backslashreplace").decode()


def installed_versions() -> dict[str, str]:
    """Return the versions of the distributions that decide what is measured, as far as they are installed."""
    found = {"python": sys.version.split()[0]}
    for name in DISTRIBUTIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue  # the worker says what it lacks when it needs it
    return found


def git_commit(folder: Path) -> str | None:
    """Return a working tree's commit, `-dirty` appended where tracked files differ; `None` without an answer in 2 s."""
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        found = subprocess.run(
            command, capture_output=True, text=True, timeout=2, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None if found.returncode == 0 else None


def supervisor_command(run_dir: Path, ready_fd: int) -> list[str]:
    """Return the supervisor's command line; `-P` keeps the user's working directory from hiding modules of ours."""
    return [sys.executable, "-P", "-m", "gradscope.launch.supervisor", str(run_dir), "--ready-fd", str(ready_fd)]


def start_supervisor(run_dir: Path, command: Sequence[str] | None = None) -> None:
    """Start a run's supervisor, detached from this session, and wait until it has started the worker.

    Args:
        run_dir: A run directory with its manifest.
        command: The supervisor's command line, less the descriptor it says `READY` to, which is appended.

    Raises:
        GradscopeError: It did not come so far, with its own words where it had any.
    """
    _supervisors[:] = [process for process in _supervisors if process.poll() is None]
    read_end, write_end = os.pipe()
    try:
        with (run_dir / WORKER_LOG).open("ab") as log:
            process = subprocess.Popen(
                supervisor_command(run_dir, write_end) if command is None else [*command, str(write_end)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
                pass_fds=(write_end,),
            )
    except OSError as error:
        os.close(read_end)
        raise GradscopeError(
            f"the run could not be started: {error.strerror}",
            "the system may be out of processes, memory or disk space",
            exit_code=ExitCode.ENVIRONMENT,
        ) from error
    finally:
        os.close(write_end)
    _supervisors.append(process)
    with os.fdopen(read_end, "rb") as pipe:
        said = hear(pipe.fileno(), READY_SECONDS)
    if said == READY:
        return
    if said is None:
        process.kill()
        raise GradscopeError(
            f"the run did not start within {READY_SECONDS:g} s",
            f"see {run_dir / WORKER_LOG}",
            exit_code=ExitCode.FAILED,
        )
    returncode = process.wait()
    exit_code = ExitCode(returncode) if returncode in set(ExitCode) - {ExitCode.DONE} else ExitCode.FAILED
    message, _, hint = said.decode(errors="replace").partition("\n")
    raise GradscopeError(
        message or f"the run's supervisor ended at once (exit code {returncode})",
        hint or f"see {run_dir / WORKER_LOG}",
        exit_code=exit_code,
    )
