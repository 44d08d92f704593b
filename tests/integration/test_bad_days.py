"""Bad days through the real command line and a real worker: exit code, status, one clear message, a readable folder."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pytest

from gradscope.analysis.summary import load_summary
from gradscope.core.status import Status
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.layout import RESERVE
from gradscope.rundir.registry import all_runs
from tests.skewed_clock import skewed_clock

ROOT = Path(__file__).parents[2]
GRADSCOPE = [sys.executable, "-P", "-c", "from gradscope.cli.app import main; main()"]

PRESET = f"""
name = "bad"
[model]
name = "py:{ROOT}/tests/user_models.py:tiny"
[data]
batch_size = 4
[optimizer]
name = "sgd"
lr = 0.01
[budget]
updates = 6
[run]
device = "cpu"
threads = 1
warmup = 1
[profile]
steps = 2
[audit]
enabled = false
flops = false
"""


@dataclass(frozen=True)
class Day:
    """What goes wrong, and what has to come of it."""

    model: str
    status: Status
    exit_code: int
    says: str
    """A line on stderr."""
    measured: int
    """Steps that stay measured."""
    settings: tuple[str, ...] = ()


DAYS = {
    "out of memory, wrapped": Day(
        "out_of_memory",
        Status.OOM,
        3,
        "oom: RuntimeError at step 5 in forward: the forward of block 3 failed "
        "(memory ran out: CUDA out of memory. Tried to allocate 20.00 GiB)",
        3,
    ),
    "nan, stop": Day("not_a_number", Status.FAILED, 1, "failed: the loss is nan at step 5", 4),
    "nan, go on": Day(
        "not_a_number",
        Status.DONE,
        0,
        "note: the loss is nan at step 5",
        6,
        ("run.on_nonfinite=continue",),
    ),
    "a factory that raises": Day(
        "raising_factory",
        Status.FAILED,
        1,
        f"failed: py:{ROOT}/tests/user_models.py:raising_factory raised ValueError: "
        "the checkpoint [/red] does not fit this model",
        0,
    ),
    "a model that raises": Day(
        "raising", Status.FAILED, 1, "failed: ValueError at step 5 in forward: labels out of", 3
    ),
    "a loader process that is spawned": Day("spawning", Status.DONE, 0, "trace of 2 steps: ", 6),
    "a clock set back": Day("setting_the_clock_back", Status.DONE, 0, "trace of 2 steps: ", 6),
}


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: int
    stdout: str
    stderr: str
    run: RunHandle


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    """All days, two at a time: each pays for an import of torch."""
    folder = tmp_path_factory.mktemp("days")
    (folder / "bad.toml").write_text(PRESET)
    environment = os.environ | {"XDG_STATE_HOME": str(folder / "state")} | skewed_clock(folder)

    def live(name: str) -> Ended:
        day, out = DAYS[name], name.replace(" ", "-")
        settings = (f"model.name=py:{ROOT}/tests/user_models.py:{day.model}", *day.settings)
        done = subprocess.run(
            [*GRADSCOPE, "run", "./bad.toml", "--json", "--out", out, *chain(*(("-s", one) for one in settings))],
            capture_output=True,
            text=True,
            cwd=folder,
            env=environment if "clock" in name else {**environment, "LD_PRELOAD": ""},
            check=False,
            timeout=120,
        )
        [run] = all_runs(folder / out)
        return Ended(done.returncode, done.stdout, done.stderr, run)

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(DAYS, pool.map(live, DAYS), strict=True))


@pytest.mark.timeout(150)
@pytest.mark.parametrize("name", DAYS)
def test_a_bad_day_ends_in_the_right_status_with_one_message_and_a_readable_run(
    ended: dict[str, Ended], name: str
) -> None:
    day, got = DAYS[name], ended[name]
    assert (got.code, got.run.status().status) == (day.exit_code, day.status), got.stderr
    lines = got.stderr.splitlines()
    assert len([line for line in lines if line.startswith(day.says)]) == 1, got.stderr
    verdicts = [line for line in lines if line.startswith(tuple(f"{status}: " for status in Status))]
    assert len(verdicts) == (0 if day.status is Status.DONE else 1)
    assert not any("gradscope/cli" in line or "gradscope/launch" in line for line in lines), "a traceback of ours"
    shown = json.loads(got.stdout)
    assert (shown["status"], shown["exit_code"], shown["duration"]["measured_steps"]) == (
        day.status,
        day.exit_code,
        day.measured,
    )
    assert (shown["reason"] is None) == (day.status is Status.DONE)
    tail = got.run.event_tail()
    events = tail.read()
    assert (tail.malformed, tail.unknown) == (0, 0)
    assert [event.seq for event in events] == list(range(len(events)))
    assert load_summary(got.run.path).run_id == got.run.run_id
    assert (got.run.path / "summary.json").exists()
    assert not (got.run.path / RESERVE).exists()


def test_times_do_not_notice_that_the_clock_was_set_back(ended: dict[str, Ended]) -> None:
    run = ended["a clock set back"].run
    events, samples = run.events(), run.samples()
    for records in (events, samples):
        stamps = [record.t_ns for record in records]
        assert stamps == sorted(stamps)
    summary = load_summary(run.path)
    assert summary.time.step_ms is not None
    assert summary.time.step_ms.minimum > 0
    assert summary.duration.wall_seconds is not None
    assert 0 < summary.duration.wall_seconds < 600
    starts = [event.wall_ns for event in events if type(event).__name__ in ("WorkerStarted", "ProfileStarted")]
    assert starts[1] < starts[0], "the clock was not set back in between"
    assert summary.windows[0].file is not None
