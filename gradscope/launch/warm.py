"""The warm process as a sweep sees it: it has torch imported, and starts a supervisor for each cell that it is sent.

A cell so starts 0.1 s after it was asked for instead of 4 to 8 s, in processes of its own all the same.
"""

import contextlib
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from gradscope.core.text import visible
from gradscope.errors import ExitCode, GradscopeError
from gradscope.launch.drain import last_lines
from gradscope.launch.handshake import READY

IMPORT_SECONDS = 300.0
"""How long torch's import may take: a cold network file system is slow."""

START_SECONDS = 60.0
"""How long a supervisor may take to start its worker; normally 0.05 s."""

EXIT_SECONDS = 1.0
"""How long a process that has closed its socket may take to be gone."""

LARGEST_MESSAGE = 1 << 16

LOG_LINES = 3

SUPERVISOR = "gradscope.launch.forked:supervise_cell"

KEEP = b"keep"
"""What a supervisor is sent if its run is to go on when the sender is gone."""

WORKER_ENDED = b"worker ended"
"""What a supervisor says, after `READY`, once its worker's processes are gone and only the writing up is left."""


class CellRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a warm process is sent. With it come descriptors: the supervisor's end of a socket, and a cell's lock."""

    run_dir: str
    env: dict[str, str] = {}
    """Environment variables of this cell beside those of the sweep."""
    time_limit_seconds: float | None = None


class WarmLost(Exception):  # noqa: N818  # what to do about it is to start another
    """The warm process is gone."""


class WarmProcess:
    """A process to fork cells from, started when it is first needed and again whenever it was killed."""

    def __init__(self, log: Path) -> None:
        """`log`: a file that takes its output, which is about its own start only."""
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._ready = False
        self._deadline = 0.0

    def begin(self) -> None:
        """Start it if it does not run; it then imports what takes seconds.

        Raises:
            GradscopeError: It cannot be started.
        """
        if sys.platform != "linux":
            raise GradscopeError(
                "sweeps run on Linux only: elsewhere a process with torch imported cannot safely be forked",
                "`gradscope run PRESET -s ...` runs single cells",
                exit_code=ExitCode.ENVIRONMENT,
            )
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-X", "faulthandler", "-P", "-m", "gradscope.worker.warm"]
        options = ["--fd", str(theirs.fileno()), "--parent", str(os.getpid()), "--supervisor", SUPERVISOR]
        try:
            with theirs, self._log.open("wb") as log:
                self._process = subprocess.Popen(
                    [*command, *options],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=os.environ | {"PYTHONUNBUFFERED": "1", "PYTORCH_NVML_BASED_CUDA_CHECK": "1"},
                    start_new_session=True,
                    pass_fds=(theirs.fileno(),),
                )
        except OSError as error:
            ours.close()
            raise GradscopeError(
                f"the warm process could not be started: {error.strerror}",
                "the system may be out of processes, memory or disk space",
                exit_code=ExitCode.ENVIRONMENT,
            ) from error
        ours.setblocking(False)
        self._socket = ours
        self._ready = False
        self._deadline = time.monotonic() + IMPORT_SECONDS

    def descriptors(self) -> list[int]:
        """Return what can be read when it is ready, while it is not."""
        return [] if self._socket is None or self._ready else [self._socket.fileno()]

    def is_ready(self) -> bool:
        """Whether it has imported everything; starts it if need be, and never waits.

        Raises:
            WarmLost: It was killed meanwhile.
            GradscopeError: It cannot be started, or torch cannot be imported.
        """
        if self._process is None or self._ready:  # else a death on the way is to be noticed, not made up for
            self.begin()
        assert self._socket is not None
        if self._ready:
            return True
        try:
            said = self._socket.recv(LARGEST_MESSAGE)
        except BlockingIOError:
            if time.monotonic() < self._deadline:
                return False
            said = b""
        except OSError:
            said = b""
        if said == READY:
            self._ready = True
            return True
        if self.close(EXIT_SECONDS) < 0 and time.monotonic() < self._deadline:
            raise WarmLost
        raise GradscopeError(
            f"torch could not be imported{self._last_words()}", f"see {self._log}", exit_code=ExitCode.ENVIRONMENT
        )

    def start(self, request: CellRequest, lock: int | None = None) -> socket.socket:
        """Start a run's supervisor and return the socket to it, which never blocks: it says `WORKER_ENDED`, and ends.

        Only once the process is ready.

        Args:
            request: The cell.
            lock: Descriptor of its lock, if it has one, which the supervisor holds too.

        Raises:
            WarmLost: The warm process is gone, or does not answer.
            GradscopeError: The run could not be started, in its supervisor's words.
        """
        if self._socket is None:
            raise WarmLost
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(START_SECONDS)
        try:
            with theirs:
                descriptors = [theirs.fileno()] if lock is None else [theirs.fileno(), lock]
                socket.send_fds(self._socket, [msgspec.json.encode(request)], descriptors)
            said = ours.recv(LARGEST_MESSAGE)
        except OSError as error:
            ours.close()
            self.close()
            raise WarmLost from error
        if said == READY:
            ours.setblocking(False)
            return ours
        ours.close()
        if not said:
            raise WarmLost
        message, _, hint = said.decode(errors="replace").partition("\n")
        raise GradscopeError(message, hint, exit_code=ExitCode.FAILED)

    def close(self, patience_seconds: float = 0.0) -> int:
        """End it; the cells that run go on. Returns its own exit code, negative if a signal had ended it before."""
        code = 0
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self._process.wait(patience_seconds)
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        return code

    def _last_words(self) -> str:
        lines = last_lines(self._log.read_bytes(), LOG_LINES) if self._log.is_file() else []
        return f": {visible(lines[-1].strip())}" if lines else ""
