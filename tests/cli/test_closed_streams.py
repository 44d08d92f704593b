"""Every command where the shell closed a stream (`>&-`), and where Ctrl-C comes outside of a command."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gradscope.cli import app
from tests.command_line import gradscope

TRACE = Path(__file__).parent.parent / "cases" / "traces" / "base_gpu.json"

pytestmark = pytest.mark.usefixtures("own_folder")


@pytest.mark.parametrize("stream", ["stdin", "stdout", "stderr"])
@pytest.mark.parametrize(
    "arguments",
    [("trace", TRACE), ("trace", TRACE, "--to", "json"), ("trace", TRACE, "--compare", TRACE), ("runs",), ("presets",)],
    ids=lambda arguments: " ".join(map(str, arguments[::2])),
)
def test_a_closed_stream_is_as_good_as_dev_null(
    stream: str, arguments: tuple[str | Path, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, stream, None)
    assert gradscope(*arguments) == 0
    assert getattr(sys, stream).name == os.devnull
    getattr(sys, stream).close()


def test_a_shell_can_close_all_of_them() -> None:
    command = shlex.join([sys.executable, "-m", "gradscope", "trace", str(TRACE), "--view", "overview"])
    assert subprocess.run(f"{command} >&- 2>&- <&-", shell=True, check=False).returncode == 0
    done = subprocess.run(f"{command} >&-", shell=True, check=False, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, b"")


def test_ctrl_c_outside_of_a_command_prints_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(app, "app", interrupted)
    assert gradscope("trace", TRACE) == 130
    assert capsys.readouterr() == ("", "")
