"""SIGKILL of real training at random moments: status, run directory and process table are right within two seconds."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradscope.analysis.summary import load_summary
from gradscope.config.schema import BudgetSettings, DataSettings, ModelSettings, Preset, RunSettings
from gradscope.core.status import Status
from gradscope.launch.spawn import launch
from gradscope.rundir.control import CaptureRequested, request
from gradscope.rundir.handle import RunHandle
from tests import fake_runs

SECONDS = 2.0

MODELS = Path(__file__).parents[1] / "user_models.py"

PRESET = Preset(
    name="kill",
    model=ModelSettings(name=f"py:{MODELS}:slow", options={"milliseconds": 10}),
    data=DataSettings(batch_size=4, workers=1),
    budget=BudgetSettings(updates=1_000_000),
    run=RunSettings(device="cpu", threads=1, warmup=1),
)
"""No transformers import, one loader process, and no end."""

VICTIMS = (("worker",), ("supervisor",), ("supervisor", "worker"), ("worker", "supervisor"))


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield
    fake_runs.reap()


def kill_one(out: Path, chance: random.Random, *, training: bool) -> None:
    """Start a run, kill some of it at a random moment before or in training, and check what is promised."""
    victims, delay = chance.choice(VICTIMS), chance.uniform(0, 0.5 if training else 1.5)
    capture = training and chance.random() < 0.5
    print(f"{victims} after {delay:.3f} s{' of training' * training}{', while capturing' * capture}")
    run = launch(PRESET, out=out)
    if training:
        fake_runs.wait_for_steps(run)
    if capture:
        request(run.path, CaptureRequested(steps=20))
    time.sleep(delay)  # the moment is the test's input, not a wait for something
    pids = fake_runs.pids_of(run)
    assert len(fake_runs.processes_of(run)) >= (3 if training else 1)
    for victim in victims:
        fake_runs.kill(pids[victim])
    fake_runs.wait_for(lambda: is_told(run), SECONDS)
    fake_runs.wait_for(lambda: pids["worker"] not in fake_runs.processes_of(run), SECONDS + 1)
    fake_runs.wait_for(lambda: run.status().status.is_final)
    record = run.status()
    assert (record.status, record.exit_code, record.signal) == (Status.KILLED, 137, 9), record
    reads(run)
    fake_runs.wait_for(lambda: fake_runs.processes_of(run) == [], SECONDS)


def is_told(run: RunHandle) -> bool:
    """Whether the verdict stands: as the status, or beside `exporting` while the run is written up."""
    record = run.status()
    return record.status.is_final or record.verdict is Status.KILLED


def reads(run: RunHandle) -> None:
    tail = run.event_tail()
    events = tail.read()
    assert (tail.malformed, tail.unknown) == (0, 0)
    assert [event.seq for event in events] == list(range(len(events)))
    assert load_summary(run.path).run_id == run.run_id


@pytest.mark.timeout(300)
def test_eight_kills_at_random_moments(tmp_path: Path) -> None:
    seed = 20261130
    print(f"seed {seed}")
    chance = random.Random(seed)
    for number in range(8):
        kill_one(tmp_path, chance, training=number % 2 == 1)


@pytest.mark.soak
def test_many_kills_at_random_moments_of_training(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for number in range(40):
        kill_one(tmp_path, chance, training=number % 3 > 0)
