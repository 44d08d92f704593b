"""The app in a real terminal: what it leaves behind, and what it does when the terminal is odd, tiny, stuck or gone."""

import os
import re
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from pty_terminal import Terminal

GRADSCOPE = Path(sys.executable).with_name("gradscope")

READY = "gradscope"
"""Shown by the first screen."""

COLOURS = re.compile(r"(?:^|;)(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;|$)")

SCREENS_THAT_MISBEHAVE = """
import os, subprocess, sys, warnings
from pathlib import Path
from textual.binding import Binding
from textual.widgets import Static
from gradscope.tui import app, start
from gradscope.tui.screens.base import GradscopeScreen
from gradscope.tui.widgets.foreign import literal

class First(GradscopeScreen):
    BINDINGS = [Binding("p", "print", "print"), Binding("e", "fail", "fail"), Binding("f", "stick", "stick")]
    def compose(self):
        yield Static("first screen of gradscope")
        yield Static(literal("[/red] \\x1b]0;X\\x07 \\x1b[2J"))
    def action_print(self):
        print("WRECK")
        warnings.warn("WRECK")
        sys.__stdout__.write("WRECK"); sys.__stdout__.flush()
        os.write(1, b"WRECK"); os.write(2, b"WRECK")
        os.system("echo WRECK; echo WRECK >&2")
        subprocess.run(["echo", "WRECK"], stderr=sys.__stderr__)
        self.query_one(Static).update("still here")
    def action_fail(self):
        raise ValueError("[/red] \\x1b[2J")
    def action_stick(self):
        import time
        self.run_worker(lambda: time.sleep(3600), thread=True)
        self.query_one(Static).update("stuck")

app.GradscopeApp.get_default_screen = lambda self: First()
if "never" in sys.argv:
    def broken(self): raise RuntimeError("never works")
    First.compose = broken
sys.exit(start.run_app(Path("traces")))
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLORTERM", "TMUX", "STY")}
    return {
        **kept,
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }


@pytest.fixture
def misbehaving(tmp_path: Path) -> list[str]:
    script = tmp_path / "misbehaving.py"
    script.write_text(SCREENS_THAT_MISBEHAVE)
    return [sys.executable, str(script)]


def assert_given_back(terminal: Terminal) -> None:
    assert terminal.cells.modes <= {"?7", "?25"}  # lines wrap, and the cursor shows
    assert terminal.attributes_now() == terminal.attributes


def test_q_leaves_and_gives_the_terminal_back(tmp_path, env):
    with Terminal([GRADSCOPE], env=env, cwd=tmp_path) as terminal:
        terminal.wait_for(READY)
        assert {"?1049", "kitty"} <= terminal.cells.modes
        assert "?1003" not in terminal.cells.modes  # motion of the mouse would be traffic
        terminal.send("q")
        assert terminal.wait_for_end() == 0
        assert_given_back(terminal)
        assert terminal.text.strip() == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it_and_give_the_terminal_back(tmp_path, env, number):
    with Terminal([GRADSCOPE], env=env, cwd=tmp_path) as terminal:
        terminal.wait_for(READY)
        terminal.process.send_signal(signal.SIGCONT)  # as a hang-up does too
        terminal.read(0.1)
        terminal.process.send_signal(number)
        assert terminal.wait_for_end() == 128 + number
        assert_given_back(terminal)


@pytest.mark.parametrize("ignoring", [(), (signal.SIGHUP,)], ids=["told by SIGHUP", "not told"])
def test_a_lost_terminal_ends_it(tmp_path, env, ignoring):
    with Terminal([GRADSCOPE], env=env, cwd=tmp_path, ignoring=ignoring) as terminal:
        terminal.wait_for(READY)
        terminal.hang_up()
        assert terminal.wait_for_end(reading=False) == 128 + signal.SIGHUP
    assert not (tmp_path / "state/gradscope/app.log").read_text()


def test_a_terminal_that_takes_nothing_does_not_keep_it(tmp_path, env):
    with Terminal([GRADSCOPE], env=env, cwd=tmp_path, size=(300, 100)) as terminal:
        terminal.wait_for(READY)
        for width in range(100, 300, 2):  # nobody reads what is drawn now
            terminal.resize(width, 100)
            os.write(terminal._master, b"?\x1b")
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.wait_for_end(reading=False) == 128 + signal.SIGTERM
        assert terminal.attributes_now() == terminal.attributes


def test_work_that_does_not_end_does_not_keep_it(tmp_path, env, misbehaving):
    with Terminal(misbehaving, env=env, cwd=tmp_path) as terminal:
        terminal.wait_for("first screen")
        terminal.send("f")
        terminal.wait_for("stuck")
        terminal.send("q")
        assert terminal.wait_for_end() == 0
        assert_given_back(terminal)


def test_a_terminal_without_a_cursor_gets_the_help(tmp_path, env):
    with Terminal([GRADSCOPE], env={**env, "TERM": "dumb"}, cwd=tmp_path) as terminal:
        assert terminal.wait_for_end() == 2
        assert "TERM is dumb" in terminal.text
        assert not terminal.cells.styles
        assert not terminal.cells.modes


def test_without_a_terminal_there_is_plain_help(tmp_path, env):
    done = subprocess.run(
        [GRADSCOPE], env=env, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "\x1b" not in done.stderr
    assert "no terminal on stdin, stdout, stderr" in done.stderr


def test_any_size_at_any_moment(tmp_path, env):
    with Terminal([GRADSCOPE], env=env, cwd=tmp_path, size=(20, 5)) as terminal:
        terminal.wait_for("too small: 20x5")
        for turn in range(50):
            terminal.resize((20, 300, 40, 1, 81)[turn % 5], (5, 80, 10, 1, 24)[turn % 5])
            terminal.read(0.0)
        terminal.resize(80, 24)
        terminal.wait_for(READY)
        terminal.send("q")
        assert terminal.wait_for_end() == 0


def test_a_poor_console_gets_ascii_in_its_own_16_colours(tmp_path, env):
    with Terminal([GRADSCOPE], env={**env, "TERM": "linux"}, cwd=tmp_path) as terminal:
        assert terminal.wait_for(READY).isascii()
        terminal.send("?")
        assert terminal.wait_for("keys").isascii()
        assert [style for style in terminal.cells.styles if "38;" in style or "48;" in style] == []


def test_no_colour_means_none(tmp_path, env):
    with Terminal([GRADSCOPE], env={**env, "NO_COLOR": "1", "COLORTERM": "truecolor"}, cwd=tmp_path) as terminal:
        terminal.wait_for(READY)
        terminal.send("?")
        terminal.wait_for("keys")
        assert [style for style in terminal.cells.styles if COLOURS.search(style)] == []


def test_nothing_that_is_printed_or_raised_reaches_the_screen(tmp_path, env, misbehaving):
    with Terminal(misbehaving, env=env, cwd=tmp_path) as terminal:
        assert r"[/red] \e]0;X\x07 \e[2J" in terminal.wait_for("first screen")
        terminal.send("p")
        assert "WRECK" not in terminal.wait_for("still here")
        assert not any("X" in string for string in terminal.cells.strings)
        terminal.send("e")
        text = terminal.wait_for("something went wrong")
        assert r"ValueError: [/red] \e[2J" in text
        assert "app.log" in text
        terminal.send("enter")
        terminal.wait_for(lambda shown: "something went wrong" not in shown)
        terminal.send("q")
        assert terminal.wait_for_end() == 0
        assert_given_back(terminal)
    log = (tmp_path / "state/gradscope/app.log").read_text()
    assert log.count("WRECK") >= 8
    assert "Traceback" in log


def test_an_app_that_cannot_go_on_says_so_in_a_line(tmp_path, env, misbehaving):
    with Terminal([*misbehaving, "never"], env=env, cwd=tmp_path, size=(200, 24)) as terminal:
        assert terminal.wait_for_end() == 1
        assert_given_back(terminal)
        lines = terminal.text.strip().splitlines()
        assert len(lines) == 1
        assert lines[0].startswith("gradscope: RuntimeError: never works; details: ")


def test_input_that_is_no_utf8_is_borne(tmp_path, env):
    with Terminal([GRADSCOPE], env=env, cwd=tmp_path) as terminal:
        terminal.wait_for(READY)
        os.write(terminal._master, b"\xff\xe4\xf6 ")
        terminal.read(0.3)  # a key that is read together with it would be lost
        terminal.send("?")
        terminal.wait_for("keys")
        assert termios.tcgetattr(terminal._master) != terminal.attributes
        terminal.send("escape", "q")
        assert terminal.wait_for_end() == 0
