"""What is known of a terminal before the app opens in it, and the way out to one that is stuck or gone."""

import contextlib
import io
import os
import pty
import threading

import pytest

from gradscope.tui.outlet import Outlet
from gradscope.tui.terminal import size_of, takes_utf8, too_small, why_no_app


class Stream(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


def streams(*terminals: bool) -> dict[str, io.StringIO]:
    return dict(zip(("stdin", "stdout", "stderr"), map(Stream, terminals), strict=True))


def test_the_app_opens_in_a_terminal_only():
    assert why_no_app(streams(True, True, True), {"TERM": "xterm"}) is None
    assert why_no_app(streams(True, False, True), {"TERM": "xterm"}) == "no terminal on stdout"
    assert why_no_app(streams(False, False, False), {}) == "no terminal on stdin, stdout, stderr"
    assert why_no_app({"stdin": None}, {"TERM": "xterm"}) == "no terminal on stdin"


def test_the_terminal_has_to_move_its_cursor():
    reason = "the terminal cannot move its cursor: TERM is "
    assert why_no_app(streams(True, True, True), {"TERM": "dumb"}) == f"{reason}dumb"
    assert why_no_app(streams(True, True, True), {}) == f"{reason}not set"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"LANG": "en_US.UTF-8"}, True),
        ({"LANG": "de_DE.utf8"}, True),
        ({"LANG": "de_DE.ISO-8859-1"}, False),
        ({"LANG": "en_US.UTF-8", "LC_ALL": "C"}, False),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, False),  # Python's own doing
        ({"LC_CTYPE": "C.UTF-8"}, True),
        ({"LC_CTYPE": "POSIX", "LANG": "en_US.UTF-8"}, False),
        ({}, True),
        ({"TERM": "linux", "LANG": "en_US.UTF-8"}, False),
    ],
)
def test_utf8_goes_by_the_locale_and_the_font(environ, expected):
    assert takes_utf8(environ) is expected


def test_the_least_size():
    assert not too_small(40, 10)
    assert too_small(39, 10)
    assert too_small(40, 9)


def test_a_size_that_is_not_told_is_80x24():
    read_end, write_end = os.pipe()
    assert size_of(read_end) == (80, 24)
    master, slave = pty.openpty()
    assert size_of(slave) == (80, 24)  # a pty's size is 0x0 at first
    for descriptor in (read_end, write_end, master, slave):
        os.close(descriptor)


@pytest.fixture
def ends():
    master, slave = pty.openpty()
    yield master, slave
    for descriptor in (master, slave):
        with contextlib.suppress(OSError):  # the test closed it
            os.close(descriptor)


def test_what_is_written_arrives(ends):
    master, slave = ends
    outlet = Outlet(slave)
    assert outlet.write("h\N{LATIN SMALL LETTER E WITH ACUTE}\udcff") == 3
    assert os.read(master, 100) == "h\N{LATIN SMALL LETTER E WITH ACUTE}?".encode()
    outlet.close()


def test_not_blocking_stays_with_the_outlet(ends):
    _, slave = ends
    outlet = Outlet(slave)
    assert os.get_blocking(slave)
    outlet.close()


def test_a_terminal_that_is_gone_takes_everything(ends):
    master, slave = ends
    outlet = Outlet(slave)
    os.close(master)
    assert outlet.write("text") == 4
    assert outlet.lost
    outlet.close()


def test_hurry_ends_a_write_that_nobody_reads(ends):
    _, slave = ends
    outlet = Outlet(slave)
    writer = threading.Thread(target=outlet.write, args=("x" * 1_000_000,))
    writer.start()
    outlet.hurry(0.1)
    writer.join(timeout=30)
    assert not writer.is_alive()
    assert not outlet.lost
    outlet.close()
