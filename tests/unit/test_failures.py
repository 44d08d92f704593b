"""The training error is what is told, and memory running out is recognised however it comes wrapped."""

import errno

import pytest
import torch

from gradscope.errors import ExitCode, GradscopeError
from gradscope.worker.failures import LONGEST_MESSAGE, StopTraining, describe, out_of_memory_in, told_first
from gradscope.worker.record import RecordError


def raised(make):
    try:
        make()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def wrapped_out_of_memory():
    try:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
    except torch.OutOfMemoryError as inner:
        raise RuntimeError("the forward of layer 3 failed") from inner


def out_of_memory_then_disk_full():
    try:
        wrapped_out_of_memory()
    finally:
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("make", [wrapped_out_of_memory, out_of_memory_then_disk_full])
def test_out_of_memory_is_found_in_causes_and_contexts(make):
    error = raised(make)
    assert isinstance(out_of_memory_in(error), torch.OutOfMemoryError)
    fields = describe(error, step=3, phase="forward")
    assert fields["message"] == f"{error} (memory ran out: CUDA out of memory. Tried to allocate 2.00 GiB)"
    assert (fields["out_of_memory"], fields["exit_code"]) == (True, ExitCode.OUT_OF_MEMORY)


def test_memory_that_runs_out_while_a_model_is_made_is_out_of_memory_whoever_tells_it():
    def factory():
        try:
            raise MemoryError
        except MemoryError as error:
            raise GradscopeError("py:m:f raised MemoryError: ", "its traceback is in the run's log") from error

    fields = describe(raised(factory), step=None, phase="setup")
    assert fields["message"] == "py:m:f raised MemoryError: "
    assert (fields["out_of_memory"], fields["exit_code"]) == (True, ExitCode.OUT_OF_MEMORY)
    assert "checkpoint" in fields["hint"]


@pytest.mark.parametrize(
    "message",
    [
        "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API call",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    ],
)
def test_a_card_that_is_full_before_torchs_allocator_notices_is_out_of_memory(message):
    assert describe(RuntimeError(message), step=1, phase="forward")["exit_code"] == ExitCode.OUT_OF_MEMORY


def test_torchs_own_host_allocator_is_recognised():
    error = raised(lambda: torch.empty(1 << 60, dtype=torch.uint8))
    fields = describe(error, step=3, phase="forward")
    assert fields["out_of_memory"] is True
    assert fields["exit_code"] == ExitCode.OUT_OF_MEMORY
    assert "checkpoint" in fields["hint"]
    assert (fields["step"], fields["phase"]) == (3, "forward")


def test_an_ordinary_error_keeps_its_own_words():
    fields = describe(ValueError("labels out of range"), step=None, phase="setup")
    assert fields["error_type"] == "ValueError"
    assert fields["message"] == "labels out of range"
    assert fields["out_of_memory"] is False
    assert fields["exit_code"] == ExitCode.FAILED


def test_an_error_of_ours_keeps_hint_and_exit_code():
    error = GradscopeError("no CUDA device", "use -s run.device=cpu", exit_code=ExitCode.ENVIRONMENT)
    fields = describe(error, step=None, phase=None)
    assert fields["hint"] == "use -s run.device=cpu"
    assert fields["exit_code"] == 6


def test_a_cycle_in_the_chain_does_not_hang():
    first, second = ValueError("a"), ValueError("b")
    first.__context__, second.__context__ = second, first
    assert out_of_memory_in(first) is None


def test_a_message_of_any_length_fits_a_record():
    assert len(describe(ValueError("x" * 100_000), step=1, phase=None)["message"]) == LONGEST_MESSAGE


def test_an_exception_without_words_is_named():
    assert describe(KeyError(), step=1, phase=None)["message"] == "KeyError"


def unwritten_record():
    try:
        raise OSError(errno.ENOSPC, "No space left on device")
    except OSError as error:
        raise RecordError(error) from error


def error_then_unwritten_records():
    try:
        try:
            raise ValueError("labels out of range")
        finally:
            unwritten_record()
    finally:
        unwritten_record()


def stop_then_unwritten_record():
    try:
        raise StopTraining("stopped")
    finally:
        unwritten_record()


def test_a_record_that_cannot_be_written_hides_no_error_in_training():
    assert str(told_first(raised(error_then_unwritten_records))) == "labels out of range"
    alone = raised(unwritten_record)
    assert told_first(alone) is alone
    stopped = raised(stop_then_unwritten_record)
    assert told_first(stopped) is stopped
    other = ValueError("labels out of range")
    assert told_first(other) is other
