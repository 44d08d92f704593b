"""Sweeps as processes of their own: started with a log, found again, stopped."""

from pathlib import Path
from typing import Any

import psutil
import pytest
from builders import GONE

from gradscope.core.status import ProcessId, Status, StatusRecord
from gradscope.errors import GradscopeError
from gradscope.launch import detached
from gradscope.launch.detached import Ended, start_sweep, started_sweep, stop_sweep, sweep_log, sweep_of
from gradscope.rundir.host import process_id


def test_a_sweep_that_ends_at_once_leaves_its_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detached, "_started", {})
    assert started_sweep(tmp_path, "no-such-grid") is None
    start_sweep(["no-such-grid", "--out", str(tmp_path)], tmp_path, "no-such-grid")
    (process,) = detached._started.values()
    assert process.wait(60) == 2
    ended = started_sweep(tmp_path, "no-such-grid")
    assert isinstance(ended, Ended)
    assert ended.exit_code == 2
    assert ended.last_line in sweep_log(tmp_path, "no-such-grid").read_text()
    assert "no-such-grid" in sweep_log(tmp_path, "no-such-grid").read_text()


def test_a_folder_that_cannot_be_made_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(GradscopeError, match="the sweep could not be started"):
        start_sweep(["grid"], tmp_path / "out", "grid")


def record(supervisor: ProcessId | None) -> StatusRecord:
    return StatusRecord(
        status=Status.MEASURING, host="h", boot_id="b", supervisor=supervisor, updated_wall_ns=0, updated_monotonic_ns=0
    )


class Made:
    """Stands for psutil's process: a chain of them by command line."""

    def __init__(self, chain: list[tuple[int, list[str]]]) -> None:
        self._chain = chain
        self.pid = chain[0][0]

    def parent(self) -> "Made | None":
        return Made(self._chain[1:]) if len(self._chain) > 1 else None

    def cmdline(self) -> list[str]:
        return self._chain[0][1]


@pytest.mark.parametrize(("module", "found"), [("gradscope.worker.warm", True), ("other", False)])
def test_a_cells_sweep_is_what_started_its_warm_process(
    monkeypatch: pytest.MonkeyPatch, module: str, found: bool
) -> None:
    me = process_id()
    assert me is not None
    chain: list[tuple[int, list[str]]] = [(me.pid, []), (17, ["python", "-m", module]), (me.pid, ["python"])]
    monkeypatch.setattr(psutil, "Process", lambda pid: Made(chain))
    assert sweep_of(record(me)) == (me if found else None)


def test_a_run_that_is_over_has_no_sweep() -> None:
    assert sweep_of(record(GONE)) is None
    assert sweep_of(record(None)) is None


def test_stopping_one_that_is_over_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def kill(*arguments: Any) -> None:
        raise AssertionError(arguments)

    monkeypatch.setattr("os.kill", kill)
    stop_sweep(GONE)
