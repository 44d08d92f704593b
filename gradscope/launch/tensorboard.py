"""TensorBoard as a process of ours: found usable before it is started, bound to this machine only, ended as a whole."""

import getpass
import re
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from gradscope.errors import ExitCode, GradscopeError
from gradscope.launch.probe import ProbeFailed, run_python
from gradscope.launch.processes import kill_group

HOST = "127.0.0.1"
"""TensorBoard shows whatever it is pointed at to whoever can reach it, so nobody else can."""

USUAL_PORT = 6006
POLL_SECONDS = 0.05
END_SECONDS = 3.0
"""Time it gets to leave by itself."""

CHECK = "import tensorboard.main, torch_tb_profiler.plugin"
CHECK_SECONDS = 120

CHATTER = re.compile(
    r"I\d{4} |TensorBoard \S+ at |TensorBoard caught SIGTERM|TensorFlow installation not found"
    r"|NOTE: Using experimental fast data"
    r'|    "--load_fast=false"|    https://github.com/tensorflow/tensorboard/issues/4784|\s*$'
)
"""How lines of its log begin that say nothing a user can act on."""

REMEDY = "pip install --force-reinstall tensorboard torch-tb-profiler (in the environment of this gradscope)"


def check_tensorboard() -> None:
    """Make sure that TensorBoard and the profiler's plugin can be imported, in a process of its own: whatever they do.

    Raises:
        GradscopeError: They cannot; the message holds the import's own last line (exit code 6).
    """
    answer = run_python(CHECK, CHECK_SECONDS)
    if isinstance(answer, ProbeFailed):
        message = f"TensorBoard or its profiler plugin cannot be imported: {answer.reason}"
        raise GradscopeError(message, REMEDY, exit_code=ExitCode.ENVIRONMENT)


def choose_port(wanted: int | None) -> int:
    """Return `wanted`, or the usual port, or, if that is taken, any that is free.

    Raises:
        GradscopeError: `wanted` is taken or not allowed.
    """
    if wanted is not None:
        if (problem := _bind_problem(wanted)) is not None:
            raise GradscopeError(
                f"port {wanted} cannot be used: {problem}",
                "leave --port out to take a free one",
                exit_code=ExitCode.ENVIRONMENT,
            )
        return wanted
    if _bind_problem(USUAL_PORT) is None:
        return USUAL_PORT
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _bind_problem(port: int) -> str | None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port just left is free
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError) as error:
            return error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return None


def ssh_forward(port: int, environment: Mapping[str, str]) -> str | None:
    """Return the command that brings `port` to the machine the user sits at; `None` where there is no SSH session.

    Args:
        port: TensorBoard's port here.
        environment: Where `SSH_CONNECTION` says how the user came: client's address and port, ours and our port.
    """
    parts = environment.get("SSH_CONNECTION", "").split()
    if len(parts) != 4:
        return None
    address, ssh_port = parts[2], parts[3]
    other_port = "" if ssh_port == "22" else f"-p {ssh_port} "
    return f"ssh -N -L {port}:{HOST}:{port} {other_port}{getpass.getuser()}@{address}"


@contextmanager
def tensorboard_server(logdir: Path, port: int, say: Callable[[str], None]) -> Iterator["subprocess.Popen[str]"]:
    """Run TensorBoard on 127.0.0.1 while the context lasts; entered once it answers.

    Args:
        logdir: What it shows.
        port: Where; see `choose_port`.
        say: Called, from another thread, with each line of its log that matters.

    Raises:
        GradscopeError: It ended before it answered; the message holds its last line.
    """
    command = [sys.executable, "-P", "-m", "tensorboard.main"]
    process = subprocess.Popen(
        [*command, "--logdir", str(logdir), "--host", HOST, "--port", str(port)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        process_group=0,
    )
    last_lines: deque[str] = deque(maxlen=20)
    reader = threading.Thread(target=_read, args=(process, last_lines, say), daemon=True)
    reader.start()
    try:
        while not _answers(port):
            if process.poll() is not None:
                reader.join(timeout=1)
                said = [line for line in last_lines if line.strip()] or [f"exit code {process.returncode}"]
                message = f"TensorBoard did not start: {said[-1].strip()}"
                raise GradscopeError(message, REMEDY, exit_code=ExitCode.ENVIRONMENT)
            time.sleep(POLL_SECONDS)
        yield process
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):  # the group is killed in any case
            process.wait(END_SECONDS)
        kill_group(process.pid)  # also the data server and the plugin's parsers
        process.wait()
        reader.join(timeout=1)


def _read(process: "subprocess.Popen[str]", last_lines: deque[str], say: Callable[[str], None]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        last_lines.append(line)
        if not CHATTER.match(line):
            say(line.rstrip("\n"))


def _answers(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=1):
            return True
    except OSError:
        return False
