"""Why training ended early: out of memory or not, in whatever exceptions it came wrapped."""

import traceback
from collections.abc import Iterator
from typing import Any

import torch

from gradscope.errors import ExitCode, GradscopeError
from gradscope.worker.record import RecordError

HOST_OUT_OF_MEMORY = ("DefaultCPUAllocator", "can't allocate memory", "std::bad_alloc", "Cannot allocate memory")
"""What torch and the C++ runtime say, in a plain RuntimeError, where the host gives no more memory."""

DEVICE_OUT_OF_MEMORY = ("CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED")
"""What comes in place of torch's own error where CUDA or one of its libraries, not torch's allocator, finds no room."""

OUT_OF_MEMORY_HINT = "try memory.strategy=checkpoint or accumulate with mode=split, or a smaller data.batch_size"

LONGEST_MESSAGE = 2000
"""Characters of a foreign message that go into a record."""


class StopTraining(Exception):  # noqa: N818  # a request, not an error
    """Training is to end at this point: `reason` is `stopped` or `orphaned`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and everything it was raised from or while handling, outermost first, each once."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        current = waiting.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        waiting.extend(inner for inner in (current.__cause__, current.__context__) if inner is not None)


def told_first(error: BaseException) -> BaseException:
    """Return what ended training: not the trouble of recording that, which may have come on top of it."""
    trouble = [inner for inner in chain(error) if isinstance(inner, RecordError | StopTraining)]
    aside = {id(inner) for one in trouble for inner in (one, one.__cause__)}
    return next((inner for inner in chain(error) if id(inner) not in aside), error)


def out_of_memory_in(error: BaseException) -> BaseException | None:
    """Return the exception by which memory ran out, on the device or the host, wherever it is in the chain."""
    for inner in chain(error):
        if isinstance(inner, MemoryError | torch.OutOfMemoryError) or (
            isinstance(inner, RuntimeError | OSError)
            and any(mark in str(inner) for mark in (*HOST_OUT_OF_MEMORY, *DEVICE_OUT_OF_MEMORY))
        ):
            return inner
    return None


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, anywhere in the exception's chain."""
    return out_of_memory_in(error) is not None


def describe(error: BaseException, *, step: int | None, phase: str | None) -> dict[str, Any]:
    """Return the fields of a `TrainingFailed` record for an exception."""
    starved = out_of_memory_in(error)
    hint: str | None = None
    exit_code = ExitCode.FAILED
    if isinstance(error, GradscopeError):
        message, kind = error.message, "GradscopeError"
        hint, exit_code = error.hint, error.exit_code
    else:
        message, kind = _words(error), type(error).__name__
    if starved is not None:
        hint, exit_code = OUT_OF_MEMORY_HINT, ExitCode.OUT_OF_MEMORY
        if starved is not error and _words(starved) not in message:  # what it came wrapped in does not say so
            message = f"{message[: LONGEST_MESSAGE // 2]} (memory ran out: {_words(starved)})"
    return {
        "error_type": kind,
        "message": message[:LONGEST_MESSAGE],
        "out_of_memory": starved is not None,
        "step": step,
        "phase": phase,
        "hint": hint,
        "exit_code": int(exit_code),
    }


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__


def print_traceback(error: BaseException) -> None:
    """Print a foreign exception whole, for `worker.log`; a `GradscopeError` has said what it has to say."""
    if not isinstance(error, GradscopeError):
        traceback.print_exception(error)
