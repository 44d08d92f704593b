"""`gradscope tensorboard [DIR]`: TensorBoard on this machine's own address, and how to reach it from elsewhere."""

import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from gradscope.cli.arguments import folder as named_folder

LARGE_BYTES = 200 * 1024 * 1024
"""Uncompressed size from which on a browser takes long to show a trace, or never does (pytorch/kineto#805)."""


class Ended(Exception):  # noqa: N818 - how a server is meant to end is no error
    """A signal asked for the end."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


def _end(signum: int, frame: FrameType | None) -> None:
    """Leave what is running, once: a second signal must not interrupt the cleaning up."""
    del frame
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    raise Ended(signum)


def command(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", parser=named_folder, help="An output root, or any folder with runs below.")
    ] = Path("traces"),
    *,
    port: Annotated[int | None, typer.Option("--port", help="Default: 6006, or a free one if that is taken.")] = None,
) -> None:
    """Show runs in TensorBoard, on 127.0.0.1 only; Ctrl-C ends it."""
    from gradscope.core.text import visible
    from gradscope.core.units import format_bytes
    from gradscope.errors import ExitCode, GradscopeError, signal_exit
    from gradscope.launch.tensorboard import HOST, check_tensorboard, choose_port, ssh_forward, tensorboard_server
    from gradscope.rundir.layout import MANIFEST, TRACE_GLOB
    from gradscope.trace.document import find_traces, uncompressed_bytes

    def note(text: str) -> None:
        typer.echo(visible(text), err=True)

    if not folder.is_dir():
        if folder.exists():
            raise GradscopeError(f"{folder} is no folder", "name the folder that the run's own lies in")
        raise GradscopeError(f"there is no folder {folder}", "`gradscope run quick` makes the folder traces")
    check_tensorboard()
    chosen = choose_port(port)
    if not any(next(folder.rglob(name), None) for name in (MANIFEST, "events.out.tfevents.*", TRACE_GLOB)):
        note(f"there is no run below {folder} yet; TensorBoard shows those that come")
    for path in find_traces(folder):
        if (size_bytes := uncompressed_bytes(path)) > LARGE_BYTES:
            note(f"{path} holds {format_bytes(size_bytes)}: the browser will struggle with its Trace view")
            note("  a window of fewer steps (-s profile.steps=1), or without stacks, makes a smaller one")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    try:
        with tensorboard_server(folder, chosen, note) as server:
            typer.echo(f"http://{HOST}:{chosen}/")
            sys.stdout.flush()
            if forward := ssh_forward(chosen, os.environ):
                note(f"on the machine you sit at: {forward}")
            note("Ctrl-C ends it")
            code = server.wait()
    except Ended as ended:
        if ended.signum != signal.SIGINT:
            sys.exit(signal_exit(ended.signum))
    else:
        raise GradscopeError(f"TensorBoard ended by itself (exit code {code})", exit_code=ExitCode.FAILED)
