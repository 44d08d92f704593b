"""Fixtures of the tests that run the engine in their own process."""

import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.fixture
def own_process() -> Iterator[None]:
    """Leave the process as it was: a worker has one to itself, a test does not."""
    import torch

    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    threads, state, numpy_state = torch.get_num_threads(), random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
    torch.set_num_threads(threads)
    random.setstate(state)
    np.random.set_state(numpy_state)


@pytest.fixture
def run(tmp_path: Path, own_process: None) -> Callable[..., Any]:
    """Run a preset to its end and return its exit code and events."""
    from tests.engine import run_engine

    count = iter(range(100))
    return lambda model="tiny", *overrides, requests=(): run_engine(
        tmp_path / f"run{next(count)}", model, overrides, requests
    )
