"""Writing a file that a user named: whole or not at all, one winner, nothing left over."""

import errno
import os
import signal
import threading
from pathlib import Path

import pytest

from gradscope.core.target_file import written_beside
from gradscope.errors import GradscopeError


def test_of_several_who_write_at_once_without_leave_to_replace_one_wins(tmp_path: Path) -> None:
    out, ready = tmp_path / "x", threading.Barrier(4)
    outcomes: list[int | str] = []

    def write(number: int) -> None:
        try:
            with written_beside(out.with_name("x"), replace=False) as file:
                file.write(b"%d" % number)
                ready.wait()
            outcomes.append(number)
        except GradscopeError as error:
            outcomes.append(error.message)

    pids = iter(range(4))
    with pytest.MonkeyPatch.context() as patch:  # threads here, processes in life: each has a temporary file of its own
        patch.setattr(os, "getpid", lambda: next(pids))
        threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    (winner,) = (outcome for outcome in outcomes if isinstance(outcome, int))
    assert outcomes.count(f"{out} exists") == 3
    assert out.read_bytes() == b"%d" % winner
    assert list(tmp_path.iterdir()) == [out]


def test_without_hard_links_one_wins_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    with written_beside(tmp_path / "x", replace=False) as file:
        file.write(b"first")
    with pytest.raises(GradscopeError, match="exists"), written_beside(tmp_path / "x", replace=False) as file:
        file.write(b"second")
    assert (tmp_path / "x").read_bytes() == b"first"


def test_through_a_link_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    with written_beside(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_signal_that_ends_the_process_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as left, written_beside(tmp_path / "x"):
        signal.raise_signal(signal.SIGTERM)
    assert left.value.code == 143
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_full_disk_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space") as caught, written_beside(tmp_path / "x"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert caught.value.filename == str(tmp_path / "x")
    assert list(tmp_path.iterdir()) == []
