"""The warm process as a sweep sees it: it has torch imported, and starts a supervisor for each cell that it is sent.

A cell so starts 0.1 s after it was asked for instead of 4 to 8 s, in processes of its own all the same.
"""

import os
import socket
import subprocess
import sys
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

LARGEST_MESSAGE = 1 << 16

LOG_LINES = 3

SUPERVISOR = "gradscope.launch.forked:supervise_cell"

WORKER_ENDED = b"worker ended"
"""What a supervisor says, after `READY`, once its worker's processes are gone and only the writing up is left."""


class CellRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a warm process is sent. Two descriptors come along: the supervisor's end of a socket, the cell's lock."""

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

    def ensure(self) -> None:
        """Start it if it does not run, and wait until it is ready.

        Raises:
            GradscopeError: It cannot be started, or torch cannot be imported.
        """
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
        self._socket = ours
        ours.settimeout(IMPORT_SECONDS)
        try:
            said = ours.recv(LARGEST_MESSAGE)
        except OSError:  # a timeout, or it died with what was never read
            said = b""
        if said != READY:
            self.close()
            raise GradscopeError(
                f"torch could not be imported{self._last_words()}", f"see {self._log}", exit_code=ExitCode.ENVIRONMENT
            )

    def start(self, request: CellRequest, lock: int) -> socket.socket:
        """Start a cell's supervisor and return the socket to it, which never blocks: it says `WORKER_ENDED`, and ends.

        Args:
            request: The cell.
            lock: Descriptor of its lock, which the supervisor holds too.

        Raises:
            WarmLost: The warm process is gone, or does not answer.
            GradscopeError: The run could not be started, in its supervisor's words.
        """
        self.ensure()
        assert self._socket is not None
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(START_SECONDS)
        try:
            with theirs:
                socket.send_fds(self._socket, [msgspec.json.encode(request)], [theirs.fileno(), lock])
            said = ours.recv(LARGEST_MESSAGE)
        except OSError as error:
            ours.close()
            raise WarmLost from error
        if said == READY:
            ours.setblocking(False)
            return ours
        ours.close()
        if not said:
            raise WarmLost
        message, _, hint = said.decode(errors="replace").partition("\n")
        raise GradscopeError(message, hint, exit_code=ExitCode.FAILED)

    def close(self) -> None:
        """End it; the cells that run go on."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _last_words(self) -> str:
        lines = last_lines(self._log.read_bytes(), LOG_LINES) if self._log.is_file() else []
        return f": {visible(lines[-1].strip())}" if lines else ""
