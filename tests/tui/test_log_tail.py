"""The worker's output on a screen: folded, bounded, and never obeyed by the terminal."""

import os
from pathlib import Path

import pytest

from gradscope.tui.log_fold import MOST_BYTES, MOST_LINES
from gradscope.tui.log_tail import MOST_BEHIND_BYTES, OPENING_BYTES, LogTail
from gradscope.tui.view import LogLine
from tests.builders import MIB


class Log:
    """A log that grows, and its reader."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tail = LogTail(path)

    def write(self, content: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(content)

    def after(self, content: bytes) -> list[tuple[str, int]]:
        self.write(content)
        return self.now()

    def now(self) -> list[tuple[str, int]]:
        self.tail.read()
        return [(line.text, line.count) for line in self.tail.lines]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "worker.log")


def test_there_is_nothing_before_the_file_is_there(log: Log) -> None:
    assert log.tail.read() is False
    assert log.after(b"") == []


def test_equal_lines_are_one_with_a_count(log: Log) -> None:
    assert log.after(b"a\nb\nb\n") == [("a", 1), ("b", 2)]
    assert log.after(b"b\nc\n") == [("a", 1), ("b", 3), ("c", 1)]
    assert log.tail.read() is False


def test_a_flood_of_one_warning_is_one_line(log: Log) -> None:
    log.after(b"start\n")
    for _ in range(20):
        log.after(b"UserWarning: no cache\n" * 500)
    assert log.now() == [("start", 1), ("UserWarning: no cache", 10_000)]


def test_a_warning_of_two_lines_is_folded_too(log: Log) -> None:
    warning = b"train.py:3: UserWarning: no cache\n  warnings.warn(text)\n"
    assert log.after(b"start\n" + warning * 1000) == [
        ("start", 1),
        ("train.py:3: UserWarning: no cache", 1000),
        ("  warnings.warn(text)", 1000),
    ]


def test_a_block_with_a_repeated_line_keeps_its_counts(log: Log) -> None:
    assert log.after(b"a\na\na\nb\n" * 3) == [("a", 9), ("b", 3)]


def test_different_lines_stay_apart(log: Log) -> None:
    assert log.after(b"a\nb\na\nc\n") == [("a", 1), ("b", 1), ("a", 1), ("c", 1)]


def test_a_line_is_shown_before_its_end_and_only_once_after(log: Log) -> None:
    assert log.after(b"load") == [("load", 1)]
    assert log.after(b"ing\nnext") == [("loading", 1), ("next", 1)]


def test_a_progress_bar_is_the_line_as_it_stands(log: Log) -> None:
    assert log.after(b"\r 10%|#   |") == [(" 10%|#   |", 1)]
    assert log.after(b"\r 20%|##  |\r 30%|### |") == [(" 30%|### |", 1)]
    assert log.after(b"\r100%|####|\ndone\n") == [("100%|####|", 1), ("done", 1)]


def test_a_bar_that_returns_after_its_text_stays_visible(log: Log) -> None:
    assert log.after(b"10 %\r") == [("10 %", 1)]
    assert log.after(b"20 %") == [("20 %", 1)]


def test_line_ends_of_windows_are_line_ends(log: Log) -> None:
    assert log.after(b"a\r\nb\r\n") == [("a", 1), ("b", 1)]


def test_empty_lines_are_left_out(log: Log) -> None:
    assert log.after(b"\n\na\n  \n\na\n") == [("a", 2)]


def test_what_a_terminal_would_obey_is_written_out(log: Log) -> None:
    assert log.after(b"\x1b[2J\x9b[/red]\x00\tx\xff\n") == [
        ("\\e[2J\N{REPLACEMENT CHARACTER}[/red]\\x00    x\N{REPLACEMENT CHARACTER}", 1)
    ]


def test_lines_of_megabytes_are_cut_and_say_so(log: Log) -> None:
    log.after(b"a\n" + b"x" * MOST_BYTES)
    for _ in range(5):
        log.after(b"x" * MIB)
    assert log.now() == [("a", 1), ("x" * MOST_BYTES + " [5.00 MiB more]", 1)]
    assert log.after(b"\nnext\n")[-1] == ("next", 1)


def test_binary_garbage_is_text(log: Log) -> None:
    lines = log.after(bytes(range(256)) * 4000)
    assert lines
    assert all(text.isprintable() for text, _ in lines)


def test_only_the_last_lines_are_kept(log: Log) -> None:
    lines = log.after(b"".join(b"line %d\n" % number for number in range(MOST_LINES + 100)))
    assert len(lines) == MOST_LINES
    assert lines[-1] == (f"line {MOST_LINES + 99}", 1)


def test_opening_a_long_log_shows_its_end_and_says_what_came_before(log: Log) -> None:
    lines = log.after(b"".join(b"%0511d\n" % number for number in range(4096)))  # 2 MiB of lines of 512 bytes
    assert lines[0] == ("[1.75 MiB of output before this: see worker.log]", 1)
    assert lines[1] == (f"{4096 - OPENING_BYTES // 512 + 1:0511d}", 1)  # the first of which the beginning was seen
    assert lines[-1] == (f"{4095:0511d}", 1)


def test_a_reader_that_falls_behind_goes_on_at_the_end(log: Log) -> None:
    log.after(b"a\n")
    lines = log.after(b"x" * MOST_BEHIND_BYTES + b"\nlast\n")
    assert lines == [("a", 1), ("[3.75 MiB of output before this: see worker.log]", 1), ("last", 1)]


def test_a_log_whose_middle_is_cut_out_keeps_its_end_and_its_counts(log: Log) -> None:
    log.after(b"head\n")
    log.after(b"warning\n" * 10_000)
    os.truncate(log.path, 5)
    assert log.now() == [("head", 1), ("warning", 10_000)]  # in the middle of it: wait
    log.write(b"\n[gradscope: about 9 bytes of output left out here]\n" + b"warning\n" * 100)
    log.now()
    assert log.after(b"warning\n")[-1] == ("warning", 10_001)


def test_a_log_that_was_emptied_is_read_again(log: Log) -> None:
    log.after(b"old\nold line\n")
    os.truncate(log.path, 0)
    log.now()
    log.now()
    assert log.after(b"new\n") == [("new", 1)]


def test_a_pipe_in_its_place_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "worker.log")
    assert LogTail(tmp_path / "worker.log").read() is False


def test_unchanged_lines_are_the_same_objects(log: Log) -> None:
    log.after(b"a\nb\n")
    first = log.tail.lines[0]
    log.after(b"b\n")
    assert log.tail.lines == (first, LogLine("b", 2))
    assert log.tail.lines[0] is first
