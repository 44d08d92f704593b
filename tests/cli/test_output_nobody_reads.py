"""A reader that has seen enough (`| head`) ends a command without a word, wherever stderr leads."""

import os
import subprocess
import sys

import pytest

COMMAND = [sys.executable, "-m", "gradscope", "presets", "--json"]


@pytest.mark.parametrize("stderr_too", [True, False])
def test_a_closed_pipe_is_no_error_worth_a_word(stderr_too, tmp_path):
    read_end, write_end = os.pipe()
    os.close(read_end)
    said = tmp_path / "stderr"
    with said.open("wb") as file:
        done = subprocess.run(COMMAND, stdout=write_end, stderr=write_end if stderr_too else file, check=False)
    os.close(write_end)
    assert done.returncode == 1
    assert said.read_text() == ""
