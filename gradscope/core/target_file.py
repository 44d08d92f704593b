"""Whether a file that a user names may be written, and writing it: whole or not at all, over nothing unasked."""

import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import BinaryIO

from gradscope.errors import GradscopeError, signal_exit

ENDING_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def check_target(out: Path, *, force: bool = False, inputs: Iterable[Path] = ()) -> None:
    """Refuse a file that may not be made or replaced.

    Args:
        out: What will be renamed over.
        force: Whether a regular file that is there may be replaced; nothing else ever may.
        inputs: Files that are being read, which are never replaced.

    Raises:
        GradscopeError: It may not be written.
    """
    if out.is_dir():
        raise GradscopeError(f"{out} is a folder", "name the file to write")
    if not out.parent.is_dir():
        raise GradscopeError(f"there is no folder {out.parent}", "make it first")
    if os.path.lexists(out):
        if not out.is_file():  # a device, a pipe, a socket, or a link to one of them or to nothing
            raise GradscopeError(f"{out} is no regular file", "name another file with --out, or redirect stdout")
        if any(source.exists() and out.samefile(source) for source in inputs):
            raise GradscopeError(f"{out} is the trace itself, which is never changed", "name another file with --out")
        if not force:
            raise _exists(out)
    if not os.access(out.parent, os.W_OK):
        raise GradscopeError(f"the folder {out.parent} cannot be written to", "name another file with --out")


@contextmanager
def written_beside(out: Path, *, replace: bool = True) -> Iterator[BinaryIO]:
    """Open a file beside `out`, and put it in its place once all is written; a link's target is what is written.

    Its name is none that gradscope or TensorBoard take for a trace. It goes away with whatever ends the writing, a
    signal that ends the process too.

    Args:
        out: Where to write.
        replace: Whether what is there by then is replaced. If not, of several who write at once one succeeds.

    Raises:
        GradscopeError: Something is there that may not be replaced.
        OSError: It cannot be written; it names `out`.
    """
    target = Path(os.path.realpath(out))
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    with _signals_raised():
        try:
            with temporary.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if replace:
                temporary.replace(target)
            else:
                _put_new(temporary, target)
        except FileExistsError as error:
            raise _exists(out) from error
        except OSError as error:  # a full disk tells no name, and nobody knows the one of ours
            if error.errno is not None and error.filename in (None, str(temporary)):
                raise OSError(error.errno, error.strerror, str(out)) from error
            raise
        finally:
            with suppress(OSError):  # what went wrong before is what is reported
                temporary.unlink(missing_ok=True)


def _put_new(temporary: Path, target: Path) -> None:
    """Give a file its name unless that is taken."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        target.touch(exist_ok=False)
        temporary.replace(target)


@contextmanager
def _signals_raised() -> Iterator[None]:
    """Let a signal that would end the process at once end it by an exception: `finally` is heeded then."""
    here = threading.current_thread() is threading.main_thread()
    taken = [number for number in ENDING_SIGNALS if here and signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, _leave)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def _leave(number: int, _frame: FrameType | None) -> None:
    sys.exit(signal_exit(number))


def _exists(out: Path) -> GradscopeError:
    return GradscopeError(f"{out} exists", "--force replaces it")
