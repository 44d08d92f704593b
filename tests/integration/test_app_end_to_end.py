"""The app as a person uses it, in a real terminal, with real training."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pty_terminal import Terminal

from gradscope.core.status import Status
from gradscope.launch.stop import stop_and_wait
from gradscope.rundir.handle import RunHandle, is_running
from gradscope.rundir.registry import all_runs

GRADSCOPE = Path(sys.executable).with_name("gradscope")

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TMUX", "STY")}
    yield {**kept, "TERM": "xterm-256color", "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1"}
    for run in all_runs(tmp_path / "traces"):
        if is_running(run.status()):
            stop_and_wait(run, kill=True)


def only_run(tmp_path: Path) -> RunHandle:
    (run,) = all_runs(tmp_path / "traces")
    return run


def test_quick_is_launched_watched_understood_and_left(tmp_path, env):
    with Terminal([GRADSCOPE], env=env, cwd=tmp_path) as terminal:
        assert "gradscope run quick" in terminal.wait_for("start here")
        terminal.send("enter")
        terminal.wait_for("measuring", 120)
        terminal.wait_for("done", 120)
        terminal.send("enter")
        terminal.wait_for("did it work")
        terminal.send("2")
        terminal.wait_for("aten::")
        terminal.send("escape", "escape")
        terminal.wait_for("recent")
        terminal.send("q")
        assert terminal.wait_for_end() == 0
        assert "Traceback" not in terminal.text
    assert only_run(tmp_path).status().status is Status.DONE
    assert not (tmp_path / "state/gradscope/app.log").read_text()


def test_a_killed_app_leaves_its_run_alone_and_another_one_finds_it(tmp_path, env):
    with Terminal([GRADSCOPE], env=env, cwd=tmp_path) as terminal:
        terminal.wait_for("start here")
        terminal.send("enter")
        terminal.wait_for("measuring", 120)
        terminal.process.kill()
        assert terminal.wait_for_end() == -signal.SIGKILL
    run = only_run(tmp_path)
    assert is_running(run.status())
    with Terminal([GRADSCOPE], env=env, cwd=tmp_path) as terminal:
        terminal.wait_for("1 running")
        terminal.send("up", "enter")
        terminal.wait_for("step/s")
        terminal.send("s", "y")
        terminal.wait_for(lambda shown: is_running(run.status()) is False, 120)
        terminal.send("q")
        assert terminal.wait_for_end() == 0
    assert run.status().status is Status.CANCELLED
