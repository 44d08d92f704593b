import pytest

from gradscope.core.table import format_table


def test_columns_are_aligned_and_lines_have_no_trailing_spaces():
    text = format_table(["name", "size"], [["a", "1 B"], ["longer", "12.3 MiB"]], "lr")
    assert text.splitlines() == [
        "name        size",
        "------  --------",
        "a            1 B",
        "longer  12.3 MiB",
    ]


def test_left_is_the_default_and_the_last_column_is_not_padded():
    assert format_table(["a", "b"], [["1", ""], ["222", "x"]]).splitlines() == ["a    b", "---  -", "1", "222  x"]


def test_a_table_without_head():
    assert format_table(["", ""], [["loss", "2.3"], ["time", "45 ms"]]) == "loss  2.3\ntime  45 ms"


def test_a_table_without_rows_is_its_head():
    assert format_table(["name"], []) == "name\n----"


def test_foreign_text_cannot_break_the_table():
    text = format_table(["name"], [["a\nb\x1b[2J"]])
    assert text.splitlines() == ["name", "---------", "a\\nb\\e[2J"]


def test_wide_characters_take_two_cells():
    assert format_table(["", ""], [["\u4e2d", "x"], ["ab", "y"]]) == "\u4e2d  x\nab  y"


def test_a_row_of_the_wrong_length_is_refused():
    with pytest.raises(ValueError, match="a row of 1 cells in a table of 2 columns"):
        format_table(["a", "b"], [["1"]])


def test_the_last_column_is_wrapped_where_the_table_is_too_wide():
    rows = [["a", "one two three four five six"], ["b", "short"]]
    assert format_table(["", "what"], rows, width=23).splitlines() == [
        "   what",
        "-  --------------------",
        "a  one two three four",
        "   five six",
        "b  short",
    ]
    assert len(format_table(["", "what"], rows, width=30).splitlines()) == 4


def test_where_few_columns_are_left_the_last_one_goes_below():
    assert format_table(["name", "what"], [["long-name", "one two three four five"]], width=24).splitlines() == [
        "name       what",
        "---------  -------------",
        "long-name",
        "    one two three four",
        "    five",
    ]
