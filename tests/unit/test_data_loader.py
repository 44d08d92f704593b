"""Micro-batches: one sequence of rows in any sizes and processes, errors that come through, no process left over."""

import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import psutil
import pytest
import torch
from torch.utils.data import Dataset

from gradscope.config.schema import DataSettings
from gradscope.errors import ExitCode, GradscopeError
from gradscope.worker.data.loader import BatchStream
from gradscope.worker.data.rows import MadeRows, StoredRows

CPU = torch.device("cpu")


def made(rng):
    return {"x": torch.from_numpy(rng.random(3, dtype=np.float32))}


def stored(index, rng):
    return {"x": torch.tensor([index])}


class Foreign(Dataset):
    """Somebody's own data set, with randomness from torch's global generator."""

    def __init__(self, length=7, fail_at=None):
        self.length = length
        self.fail_at = fail_at

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if index == self.fail_at:
            raise ZeroDivisionError("no such thing")
        return {"index": torch.tensor(index), "noise": torch.rand(2), "numpy": float(np.random.random())}


def stream(dataset, rows=(2,), workers=0, seed=5):
    return BatchStream(dataset, DataSettings(workers=workers), list(rows), device=CPU, seed=seed)


def take(source, sizes):
    try:
        return [source.next(size) for size in sizes]
    finally:
        source.close()


def rows_of(batches, key):
    return torch.cat([batch[key] for batch in batches])


def test_made_rows_come_in_order_and_in_the_prepared_sizes():
    dataset = MadeRows(made, 5)
    batches = take(stream(dataset, (3, 1)), [None] * 4)
    assert [len(batch["x"]) for batch in batches] == [3, 1, 3, 1]
    assert torch.equal(rows_of(batches, "x"), torch.stack([dataset[i]["x"] for i in range(8)]))


@pytest.mark.parametrize("sizes", [[2, 2, 2], [1, 5], [6], [4, 1, 1]])
def test_other_sizes_than_prepared_give_the_same_sequence(sizes):
    expected = rows_of(take(stream(MadeRows(made, 5)), [6]), "x")
    assert torch.equal(rows_of(take(stream(MadeRows(made, 5), (2,)), sizes), "x"), expected)


def test_stored_rows_are_shuffled_anew_for_each_pass_and_by_seed_alone():
    first = rows_of(take(stream(StoredRows(10, stored, 0), (4,)), [20]), "x").flatten().tolist()
    again = rows_of(take(stream(StoredRows(10, stored, 0), (3, 2)), [20]), "x").flatten().tolist()
    other = rows_of(take(stream(StoredRows(10, stored, 0), (4,), seed=6), [20]), "x").flatten().tolist()
    assert sorted(first[:10]) == sorted(first[10:]) == list(range(10))
    assert first[:10] != first[10:]
    assert first == again != other


@pytest.mark.parametrize(
    "dataset", [MadeRows(made, 5), StoredRows(7, stored, 0), Foreign()], ids=["made", "stored", "foreign"]
)
def test_two_loader_processes_give_what_none_gives(dataset):
    alone = take(stream(dataset, (3, 2)), [3, 2] * 4)
    helped = take(stream(dataset, (3, 2), workers=2), [3, 2] * 4)
    for key in alone[0]:
        assert torch.equal(rows_of(alone, key), rows_of(helped, key))


def test_reading_rows_draws_nothing_from_the_models_generators():
    torch.manual_seed(1)
    expected = torch.rand(4)
    torch.manual_seed(1)
    take(stream(Foreign(), (2,)), [2, 2])
    assert torch.equal(torch.rand(4), expected)


def test_a_foreign_row_differs_between_rows():
    batch = take(stream(Foreign()), [6])[0]
    assert len({tuple(row) for row in batch["noise"].tolist()}) == 6


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_in_a_row_is_one_clear_error(workers, capsys):
    with pytest.raises(GradscopeError, match=r"row 3 .* ZeroDivisionError: no such thing") as caught:
        take(stream(Foreign(fail_at=3), workers=workers), [8])
    assert caught.value.exit_code == ExitCode.FAILED
    assert capsys.readouterr().err.count("raise ZeroDivisionError") == 1


@pytest.mark.parametrize("workers", [0, 1])
def test_a_gradscope_error_keeps_its_hint_and_exit_code(workers):
    def read(index, rng):
        raise GradscopeError("cannot read it", "mend it", exit_code=ExitCode.ENVIRONMENT)

    with pytest.raises(GradscopeError, match=r"^cannot read it$") as caught:
        take(stream(StoredRows(4, read, 0), workers=workers), [2])
    assert (caught.value.hint, caught.value.exit_code) == ("mend it", ExitCode.ENVIRONMENT)


class Rows(Dataset):
    def __init__(self, *rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([torch.zeros(2), torch.zeros(2)], "no dict of tensors but: Tensor"),
        ([{}, {}], "no dict of tensors but: dict"),
        ([{"x": torch.zeros(2)}, {"x": torch.zeros(3)}], "cannot be stacked"),
        ([{"x": "a"}, {"x": "b"}], "'x' is no tensor and no number"),
        ([], "no rows"),
    ],
)
def test_unusable_rows_are_told(rows, message):
    with pytest.raises(GradscopeError, match=message):
        take(stream(Rows(*rows)), [2])


def test_a_data_set_without_length_is_told():
    class Endless(Dataset):
        def __getitem__(self, index):
            return {"x": torch.zeros(1)}

    with pytest.raises(GradscopeError, match="Endless has no length"):
        stream(Endless())


def test_numbers_become_tensors():
    assert take(stream(Rows({"x": 1, "y": 0.5})), [2])[0]["x"].tolist() == [1, 1]


def test_a_sample_larger_than_the_data_set_begins_again():
    source = stream(StoredRows(3, stored, 0))
    assert source.sample(5)["x"].flatten().tolist() == [0, 1, 2, 0, 1]
    source.close()


class FailsToPin:
    """A loader whose page-locking is the first to hear of an error on the device."""

    def __init__(self, error):
        self.error = error

    def __next__(self):
        raise self.error


@pytest.mark.parametrize(
    ("workers", "error"),
    [
        (0, RuntimeError("CUDA error: device-side assert triggered")),
        (1, torch.AcceleratorError("CUDA error: device-side assert triggered")),
    ],
)
def test_an_error_of_the_device_is_not_blamed_on_a_loader_process(workers, error):
    source = stream(MadeRows(made, 0), workers=workers)
    source._batches = FailsToPin(error)
    with pytest.raises(RuntimeError) as caught:
        source.next(2)
    assert caught.value is error
    source.close()


def test_close_ends_the_loader_processes():
    source = stream(MadeRows(made, 0), workers=2)
    source.next(2)
    processes = psutil.Process().children(recursive=True)
    assert len(processes) >= 2
    source.close()
    _, alive = psutil.wait_procs(processes, timeout=20)
    assert not [process for process in alive if "pytest" in " ".join(process.cmdline())]
    with pytest.raises(GradscopeError, match="closed"):
        source.next(2)


# torch tells of the killed process a second time, from a signal handler, when the DataLoader is being taken down
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_killed_loader_process_is_told():
    source = stream(MadeRows(made, 0), workers=1)
    source.next(2)

    def kill_and_read_on():
        for process in psutil.Process().children():
            process.send_signal(signal.SIGKILL)
        for _ in range(1000):
            source.next(2)

    # torch's own SIGCHLD handler may be first, at whatever line the signal finds
    with pytest.raises((GradscopeError, RuntimeError), match=r"a loader process is gone|killed by signal"):
        kill_and_read_on()
    source.close()


CHILD = """
    import os, sys, time, torch
    from gradscope.config.schema import DataSettings
    from gradscope.worker.data.loader import BatchStream
    from gradscope.worker.data.rows import MadeRows

    def row(rng):
        return {"x": torch.zeros(2, 2) @ torch.zeros(2, 2)}

    torch.set_num_threads(2)
    torch.zeros(512, 512) @ torch.zeros(512, 512)
    source = BatchStream(MadeRows(row, 0), DataSettings(workers=2), [2], device=torch.device("cpu"), seed=0)
    source.next(2)
    print("ready", flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_no_loader_process_outlives_a_killed_worker():
    worker = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(CHILD)], stdout=subprocess.PIPE, text=True, env={**os.environ}
    )
    assert worker.stdout.readline() == "ready\n"
    loaders = psutil.Process(worker.pid).children()
    assert len(loaders) == 2
    worker.kill()
    worker.wait()
    worker.stdout.close()
    _, alive = psutil.wait_procs(loaders, timeout=20)
    assert not alive
