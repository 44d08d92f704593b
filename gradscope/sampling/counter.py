"""An energy counter made monotonic: over 32-bit wraps, resets of the driver or card, and small steps back."""

from dataclasses import dataclass

WRAP_MJ = 1 << 32
MOST_MW = 3_000_000.0
"""No single card draws more than 3 kW: a jump that would need it is no consumption."""
SLACK_MJ = 60_000
"""Allowed on top, since counters move in lumps: 3 kW for 20 s."""


@dataclass(slots=True)
class MonotonicCounter:
    """Follows one card's counter; `total_mj` never goes down."""

    total_mj: int | None = None
    resets: int = 0
    """How often the counter started anew (a wrap is none): what was used across a reset is not known."""
    _raw: int = 0
    _t_ns: int = 0

    def advance(self, raw_mj: int, t_ns: int) -> int:
        """Take a reading in mJ at a monotonic time and return the total.

        A smaller reading is a 32-bit wrap if the energy that this implies could have been drawn since the last one;
        else a counter that started anew if the reading itself could; else a step back, which adds nothing.
        """
        if self.total_mj is None:
            self.total_mj = raw_mj
        elif raw_mj >= self._raw:
            self.total_mj += raw_mj - self._raw
        else:
            most_mj = MOST_MW * (t_ns - self._t_ns) / 1e9 + SLACK_MJ
            wrapped = raw_mj + WRAP_MJ - self._raw
            if 0 < wrapped <= most_mj:
                self.total_mj += wrapped
            elif raw_mj <= most_mj:
                self.total_mj += raw_mj
                self.resets += 1
        self._raw, self._t_ns = raw_mj, t_ns
        return self.total_mj
