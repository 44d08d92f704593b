"""How the home screen's rows are shared between its lists. Pure."""

from dataclasses import dataclass

FRAME = 3
"""Rows of the title, the command line and the footer."""

HEAD = 1
"""The line with a list's name above it."""

LEAST_PRESETS = 3
MOST_RUNNING = 6


@dataclass(frozen=True, slots=True)
class Heights:
    """Rows of each list, the line with its name included; 0 where it is not shown."""

    running: int
    presets: int
    recent: int


def heights(height: int, running: int, presets: int, recent: int) -> Heights:
    """Share the rows of a screen.

    Running runs come first, as long as they are few; then all presets, and the rest is for runs that are over. Where
    there is little room, presets scroll before the last runs go.

    Args:
        height: Rows of the whole screen.
        running: Runs that are going on.
        presets: Rows of presets, with headings.
        recent: Runs that are over, or 1 for the line that says there are none.
    """
    room = max(0, height - FRAME)
    most_running = max(1, min(MOST_RUNNING, room // 6))
    going = HEAD + min(running, most_running) if running and room > LEAST_PRESETS + HEAD else 0
    room -= going
    wanted = HEAD + presets
    kept = min(HEAD + recent, max(HEAD + 1, room // 4)) if room > 2 * (HEAD + 1) + 1 else 0
    over = max(kept, min(HEAD + recent, room - wanted))
    return Heights(going, max(0, room - over), over)
