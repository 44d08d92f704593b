"""Which files of a folder are traces: a search that ends soon whatever it is pointed at, and says what it left out."""

import os
from dataclasses import dataclass, field
from pathlib import Path

ENDINGS = (".json", ".json.gz")
NAMED = tuple(f".pt.trace{ending}" for ending in ENDINGS)
"""As torch.profiler.tensorboard_trace_handler names files."""
MOST_DEPTH = 8
"""Folders below the first that are looked into."""
MOST_ENTRIES = 50_000
"""Looked at in all: a tenth of a second."""


@dataclass(slots=True)
class FolderTraces:
    """What was found."""

    paths: list[Path] = field(default_factory=list)
    """The traces, by name."""
    left_out: int = 0
    """Other files that end as traces do."""
    unsearched: int = 0
    """Folders that were not looked into: too deep, not readable, or too many; links to folders are not counted."""
    stopped: bool = False
    """Whether the folder holds more than `MOST_ENTRIES`: then only traces right in it are taken."""


def find_in_folder(folder: Path) -> FolderTraces:
    """Search a folder: files named as torch names traces, at any depth; else any JSON file right in it."""
    found, named, others, entries = FolderTraces(), list[Path](), list[Path](), 0
    level = [folder]
    for depth in range(MOST_DEPTH + 1):
        below: list[Path] = []
        for number, here in enumerate(level):
            try:
                with os.scandir(here) as listing:
                    for entry in listing:
                        entries += 1
                        if entries > MOST_ENTRIES and depth:  # the first folder is always read to its end
                            found.stopped = True
                            break
                        if entry.is_dir(follow_symlinks=False):
                            below.append(Path(entry.path))
                        elif entry.name.endswith(ENDINGS) and entry.is_file():
                            (named if entry.name.endswith(NAMED) else others).append(Path(entry.path))
            except OSError:  # counted, and told by who asked
                found.unsearched += 1
            if found.stopped:
                found.unsearched += len(level) - number
                break
        level = below
        if not level or found.stopped:
            break
    found.unsearched += len(level)
    everything = [*named, *others]
    if found.stopped:
        named = [path for path in named if path.parent == folder]
    found.paths = sorted(named or (path for path in others if path.parent == folder))
    found.left_out = len(everything) - len(found.paths)
    return found
