"""SQL over a trace's frames, by polars: `select name, sum(dur_ns) from events group by name`."""

import difflib
import itertools
import re
from collections.abc import Callable, Iterable, Mapping

import polars as pl

from gradscope.errors import GradscopeError

TOKEN = re.compile(
    r"""--[^\n]*|/\*.*?\*/|(?P<text>'(?:[^']|'')*')|(?P<name>"(?:[^"]|"")*"|`[^`]*`|\w+)|(?P<sign>\S)""", re.DOTALL
)
FILE_READER = re.compile(r"(?:read|scan)_\w+")
"""Functions of polars' dialect that read files."""
PLAN_OF_FILE = re.compile(r"^\s*(?:\w+ SCAN|PYTHON SCAN)\b", re.MULTILINE)
"""A line of a query's plan that reads something else than the trace."""
OPENINGS = ("select", "with")
DIALECT = "polars' SQL: https://docs.pola.rs/api/python/stable/reference/sql"


def query(tables: Mapping[str, Callable[[], pl.DataFrame]], statement: str) -> pl.DataFrame:
    """Answer one statement.

    Args:
        tables: Name to what makes the table; only those that the statement names are made.
        statement: A statement of polars' dialect; text columns are plain text in it.

    Raises:
        GradscopeError: The statement is wrong, is none that only asks, or names what there is not.
    """
    _check(statement, tables)
    words = set(re.findall(r"\w+", statement.lower()))
    frames = {name: _plain(make()).lazy() for name, make in tables.items() if name in words}
    try:
        asked = pl.SQLContext(frames=frames, eager=False, register_globals=False).execute(statement)
        if PLAN_OF_FILE.search(asked.explain(optimized=False)):
            raise _refused("reads files", tables)
        return asked.collect()
    except (pl.exceptions.PolarsError, ValueError, TypeError, OSError) as error:
        message = str(error).strip().split("\n", 1)[0]
        raise GradscopeError(f"the query failed: {message}", _hint(message, tables, frames)) from error
    except pl.exceptions.PanicException as error:  # polars' own bug: still the query's fault as far as a user can tell
        raise GradscopeError("polars cannot answer this query", DIALECT) from error


def _check(statement: str, tables: Iterable[str]) -> None:
    """Refuse what is not one `select` over the tables.

    Raises:
        GradscopeError: It is something else.
    """
    tokens = [found for found in TOKEN.finditer(statement) if found.lastgroup]
    words = [found["name"].strip('"`').lower() if found["name"] else found["sign"] or "" for found in tokens]
    while words and words[-1] == ";":
        words.pop()
    first = next((word for word in words if word != "("), "")
    if first not in OPENINGS:
        raise _refused("is empty" if not first else f"begins with {first}, not with select or with", tables)
    if ";" in words:
        raise _refused("holds more than one statement", tables)
    for word, following in itertools.pairwise(words):
        if following == "(" and FILE_READER.fullmatch(word):
            raise _refused(f"reads files ({word})", tables)


def _refused(why: str, tables: Iterable[str]) -> GradscopeError:
    return GradscopeError(
        f"the query {why}: --sql answers one select over the trace's tables",
        f'they are {", ".join(tables)}; "select * from events limit 1" shows the columns of one',
    )


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
