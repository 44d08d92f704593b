"""`--sql`: one select over the trace's tables, and nothing that reads or changes anything else."""

from pathlib import Path

import polars as pl
import pytest

from gradscope.errors import ExitCode, GradscopeError
from gradscope.trace.sql import query

TABLES = {"events": lambda: pl.DataFrame({"name": ["a", "b"], "dur_ns": [1, 2]}), "steps": pl.DataFrame}


@pytest.mark.parametrize(
    "statement",
    [
        "show tables",
        "create table x as select 1",
        "explain select * from events",
        "delete from events",
        "truncate table events",
        "drop table events",
        "insert into events values (1)",
        "selec",
        "",
        "-- select 1",
        "select 1; drop table events",
        "select * from read_csv('FILE')",
        "select * from READ_CSV ('FILE')",
        "select * from \"read_csv\"('FILE')",
        "select * from `read_csv`('FILE')",
        "select * from read_csv/* */('FILE')",
        "select * from events where name in (select a from read_csv('FILE'))",
        "with x as (select * from read_csv('FILE')) select * from x",
        "select /* /* */ ' */ * from read_csv('FILE') --'",
    ],
)
def test_what_is_no_select_over_the_tables_is_refused(statement: str, tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_text("a\n1\n")
    with pytest.raises(GradscopeError) as refused:
        query(TABLES, statement.replace("FILE", str(file)))
    assert refused.value.exit_code is ExitCode.USAGE
    assert refused.value.message.endswith(": --sql answers one select over the trace's tables")
    assert refused.value.hint.startswith("they are events, steps; ")


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("select sum(dur_ns) as n from events", [{"n": 3}]),
        ("SELECT name FROM events WHERE dur_ns > 1;", [{"name": "b"}]),
        ("with x as (select max(dur_ns) as n from events) select n from x", [{"n": 2}]),
        ("(select count(*) as n from events)", [{"n": 2}]),
        ("select 'read_csv(; drop' as n from events limit 1", [{"n": "read_csv(; drop"}]),
        ("/* all; of them */ select name from events -- ; more", [{"name": "a"}, {"name": "b"}]),
    ],
)
def test_a_select_is_answered_whatever_its_texts_hold(statement: str, expected: list[dict[str, object]]) -> None:
    assert query(TABLES, statement).to_dicts() == expected
