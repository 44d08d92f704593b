"""The characters screens are drawn with: one set for UTF-8 terminals, one in ASCII.

What colour says, a character says too: each memory category and each phase has a fill of its own.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Glyphs:
    """A set of characters, each one cell wide."""

    unicode: bool
    fills: tuple[str, ...]
    """Fills that can be told apart without colour, the densest first."""
    eighths: str
    """Left-aligned parts of a cell, thinnest first, for horizontal bars; empty where there are none."""
    lower_eighths: str
    """Bottom-aligned parts of a cell, lowest first, for columns; empty where there are none."""
    full: str
    dot: str
    times: str
    ellipsis: str
    horizontal: str
    vertical: str
    tick: str
    """Where an axis has a label."""
    cursor: str
    """A vertical line through a plot."""
    profiled: str
    """Fill over steps that the profiler distorted."""
    selected: str
    running: str
    failed: str
    better: str
    """Beyond noise, in the direction that is wanted."""
    worse: str
    up: str
    down: str
    left: str
    right: str


UNICODE = Glyphs(
    unicode=True,
    fills=("█", "▓", "▒", "░", "▚", "▞", "▌", "·"),
    eighths="▏▎▍▌▋▊▉",
    lower_eighths="▁▂▃▄▅▆▇",
    full="█",
    dot="·",
    times="\N{MULTIPLICATION SIGN}",
    ellipsis="…",
    horizontal="─",
    vertical="│",
    tick="┤",
    cursor="│",
    profiled="\N{BOX DRAWINGS LIGHT DIAGONAL UPPER RIGHT TO LOWER LEFT}",
    selected="▸",
    running="▶",
    failed="✗",
    better="▼",
    worse="▲",
    up="↑",
    down="↓",
    left="←",
    right="→",
)

ASCII = Glyphs(
    unicode=False,
    fills=("#", "%", "=", ":", "x", "o", "|", "."),
    eighths="",
    lower_eighths="",
    full="#",
    dot="-",
    times="x",
    ellipsis="~",
    horizontal="-",
    vertical="|",
    tick="+",
    cursor="|",
    profiled="/",
    selected=">",
    running=">",
    failed="X",
    better="+",
    worse="!",
    up="^",
    down="v",
    left="<",
    right=">",
)
