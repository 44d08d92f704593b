"""Reading what is compared: runs, summaries on their own, all runs of a preset or sweep."""

from collections.abc import Sequence
from pathlib import Path

from gradscope.analysis.summary import load_summary
from gradscope.analysis.unlike import Side, Taken, flattened
from gradscope.core.paths import home_expanded
from gradscope.core.status import SCHEMA_VERSION, Status
from gradscope.core.summary import Summary
from gradscope.errors import GradscopeError
from gradscope.rundir.files import read_json
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.layout import EVENTS, MANIFEST, RUN_ID, STATUS, SUMMARY, short_id
from gradscope.rundir.registry import find_run

LETTERS = "ABCDEF"
MOST_SIDES = len(LETTERS)


def take_run(path: Path) -> Taken:
    """Read one run directory.

    Raises:
        OSError: It cannot be read.
    """
    handle = RunHandle(path)
    manifest = handle.manifest()
    settings = flattened(manifest.preset) if manifest else {}
    return Taken(summary=load_summary(handle.path), settings=settings, path=handle.path)


def take_file(path: Path) -> Taken:
    """Read a `summary.json`; beside its run, the run's manifest too.

    Raises:
        GradscopeError: It is none.
    """
    if path.name == SUMMARY and (path.parent / MANIFEST).exists():
        return take_run(path.parent)
    summary = read_json(path, Summary)
    if summary is None:
        raise GradscopeError(f"{path} is no summary of a run", f"compare takes runs and {SUMMARY} files")
    if summary.schema > SCHEMA_VERSION:
        raise GradscopeError(f"{path} was written by a newer gradscope", "read it with that one")
    return Taken(summary=summary)


def read_side(text: str, out: Path) -> Side:
    """Read what one argument names: a run, several with commas between, a file, or a folder of runs.

    Args:
        text: A run's path, id, prefix or `last`; a `summary.json`; a preset's name or a folder of its runs, for all of
            them that are done.
        out: The output root that runs and presets are looked up in.

    Raises:
        GradscopeError: There is no such thing.
    """
    path = home_expanded(text) if text else Path(text or "?")
    if "," in text and not path.exists():
        runs = [run for part in text.split(",") if part.strip() for run in read_side(part.strip(), out).runs]
        return _named(runs, text)
    if path.is_file():
        return _named([take_file(path)], text)
    for folder in (path, out / text):
        if folder.is_dir() and not any((folder / name).exists() for name in (MANIFEST, STATUS, EVENTS)):
            runs = _done_below(folder)
            if runs:
                return _named(runs, folder.name)
    return _named([take_run(find_run(text, out).path)], text)


def _done_below(folder: Path) -> list[Taken]:
    """Return the runs of a folder that are done, the oldest first."""
    paths = sorted(path for path in folder.iterdir() if RUN_ID.match(path.name) and path.is_dir())
    runs = [take_run(path) for path in paths if RunHandle(path).status().status is Status.DONE]
    if paths and not runs:
        raise GradscopeError(
            f"none of the {len(paths)} runs in {folder} is done", "name one to compare it all the same"
        )
    return runs


def _named(runs: Sequence[Taken], text: str) -> Side:
    if not runs:
        raise GradscopeError(f"{text!r} names no run", "`gradscope runs` lists them")
    once = {run.summary.run_id: run for run in runs}
    named = [run.summary.run_id for run in runs]
    first = runs[0].summary
    name = f"{first.identity.preset} {short_id(first.run_id)}" if len(once) == 1 else f"{text} ({len(once)} runs)"
    repeated = tuple(run_id for run_id in once if named.count(run_id) > 1)
    return Side(name=name, runs=tuple(once.values()), repeated=repeated)
