"""SQL over a trace's frames, by polars: `select name, sum(dur_ns) from events group by name`."""

import difflib
import re
from collections.abc import Callable, Mapping

import polars as pl

from gradscope.errors import GradscopeError

DIALECT = "polars' SQL: https://docs.pola.rs/api/python/stable/reference/sql"


def query(tables: Mapping[str, Callable[[], pl.DataFrame]], statement: str) -> pl.DataFrame:
    """Answer one statement.

    Args:
        tables: Name to what makes the table; only those that the statement names are made.
        statement: A statement of polars' dialect; text columns are plain text in it.

    Raises:
        GradscopeError: The statement is wrong, or names what there is not.
    """
    words = set(re.findall(r"\w+", statement.lower()))
    frames = {name: _plain(make()).lazy() for name, make in tables.items() if name in words}
    try:
        return pl.SQLContext(frames=frames, eager=False).execute(statement).collect()
    except (pl.exceptions.PolarsError, ValueError, TypeError, OSError) as error:
        message = str(error).strip().split("\n", 1)[0]
        raise GradscopeError(f"the query failed: {message}", _hint(message, tables, frames)) from error
    except pl.exceptions.PanicException as error:  # polars' own bug: still the query's fault as far as a user can tell
        raise GradscopeError("polars cannot answer this query", DIALECT) from error


def _plain(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame with text for categories: LIKE and the text functions know no others."""
    return frame.with_columns(pl.col(pl.Categorical).cast(pl.String))


def _hint(message: str, tables: Mapping[str, object], frames: Mapping[str, pl.LazyFrame]) -> str:
    """Name what the writer may have meant: a table, or a column."""
    if missing := re.search(r"relation '(.*?)' was not found", message):
        near = difflib.get_close_matches(missing[1], list(tables), n=1, cutoff=0.5)
        meant = f"did you mean {near[0]}? " if near else ""
        return f"{meant}the tables are {', '.join(tables)}"
    if missing := re.search(r"unable to find column \"(.*?)\"", message):
        columns = [name for frame in frames.values() for name in frame.collect_schema().names()]
        near = difflib.get_close_matches(missing[1], columns, n=1, cutoff=0.5)
        meant = f"did you mean {near[0]}? " if near else ""
        return f"{meant}the columns are {', '.join(dict.fromkeys(columns))}"
    return DIALECT
