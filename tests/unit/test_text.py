import pytest

from gradscope.core.text import display_width, visible


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain [/red] text", "plain [/red] text"),
        ("\x1b[2J", "\\e[2J"),
        ("\x1b]0;title\x07", "\\e]0;title\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
        ("\x00\x7f", "\\x00\\x7f"),
        ("a\u202eb\u2028c", "a\\u202eb\\u2028c"),
        ("caf\udce9", "caf\\udce9"),
        ("\u00e9\u4e2d", "\u00e9\u4e2d"),
    ],
)
def test_control_characters_are_written_out_and_the_rest_is_kept(raw, shown):
    assert visible(raw) == shown


def test_all_of_c0_and_c1_are_written_out():
    codes = [*range(0x20), *range(0x7F, 0xA0)]
    shown = visible("".join(map(chr, codes)))
    assert all(0x20 <= ord(character) < 0x7F for character in shown)


def test_characters_to_keep_are_kept():
    assert visible("a\nb\x1bc", keep="\n") == "a\nb\\ec"


def test_width_counts_terminal_cells():
    assert display_width("abc") == 3
    assert display_width("\u4e2d\u6587") == 4
    assert display_width("e\u0301") == 1
