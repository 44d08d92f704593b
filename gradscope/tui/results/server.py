"""TensorBoard beside the app: one at a time, ended with the app."""

import atexit
import os
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from textual.app import App

from gradscope.errors import GradscopeError
from gradscope.launch.processes import kill_group
from gradscope.launch.tensorboard import HOST, check_tensorboard, choose_port, ssh_forward, tensorboard_server

JOIN_SECONDS = 6.0
"""More than it takes to end what is being started."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where TensorBoard answers."""

    url: str
    forward: str | None
    """The command that brings it to the machine the user sits at; `None` where there is no SSH session."""
    folder: Path


class Server:
    """One TensorBoard. It runs on a thread of its own until it is stopped."""

    def __init__(self) -> None:
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._process: subprocess.Popen[str] | None = None
        self.address: Address | None = None
        """`None` while it does not run."""
        self.said: list[str] = []
        """What it had to say."""

    @property
    def starting(self) -> bool:
        """Whether it was started and does not answer yet."""
        return self._thread is not None and self._thread.is_alive() and self.address is None

    def start(self, folder: Path, tell: Callable[["Server", tuple[str, str] | None], None]) -> None:
        """Start it, unless it runs.

        Args:
            folder: What it shows.
            tell: Called on another thread once it answers, and once it has ended; with message and hint of an error.
        """
        if self._thread is not None and self._thread.is_alive():
            return
        self._end.clear()
        self.said.clear()
        self._thread = threading.Thread(target=self._run, args=(folder, tell), name="tensorboard", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end."""
        self._end.set()

    def close(self) -> None:
        """End it at once, since it has nothing to lose, and wait until it has."""
        self._end.set()
        if (process := self._process) is not None:
            kill_group(process.pid)
        if self._thread is not None:
            self._thread.join(JOIN_SECONDS)

    def _run(self, folder: Path, tell: Callable[["Server", tuple[str, str] | None], None]) -> None:
        error: tuple[str, str] | None = None
        try:
            check_tensorboard()
            port = choose_port(None)
            with tensorboard_server(folder, port, self.said.append) as process:
                self._process = process
                self.address = Address(f"http://{HOST}:{port}/", ssh_forward(port, os.environ), folder)
                tell(self, None)
                while process.poll() is None and not self._end.wait(0.2):
                    pass
                if not self._end.is_set():
                    error = (f"TensorBoard ended by itself (exit code {process.poll()})", "")
        except GradscopeError as failed:
            error = (failed.message, failed.hint)
        except OSError as failed:
            error = (f"TensorBoard cannot be started: {failed.strerror}", "")
        self.address, self._process = None, None
        tell(self, error)


_servers: "WeakKeyDictionary[App[Any], Server]" = WeakKeyDictionary()


def server_of(app: App[Any]) -> Server:
    """Return the TensorBoard of an app; it ends with the app."""
    if app not in _servers:
        server = Server()
        _servers[app] = server
        atexit.register(server.close)
    return _servers[app]


def stop_if(server: Server, stop: bool | None) -> None:
    """End TensorBoard where the user said so."""
    if stop:
        server.stop()
