"""What the worker hears while it trains: soon, and without a look at the file at every short step."""

from pathlib import Path

import pytest

from gradscope.rundir.control import CaptureRequested, StopRequested, request
from gradscope.worker import lifeline
from gradscope.worker.failures import StopTraining
from gradscope.worker.lifeline import POLL_SECONDS, Requests


def test_a_request_is_heard_once_a_poll_is_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(lifeline.time, "monotonic", lambda: now)
    requests = Requests(tmp_path)
    request(tmp_path, CaptureRequested(steps=3))
    requests.check()
    assert requests.take_capture() == 3
    request(tmp_path, StopRequested())
    now += POLL_SECONDS / 2
    requests.check()
    now += POLL_SECONDS
    with pytest.raises(StopTraining):
        requests.check()
