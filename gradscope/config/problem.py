"""What is wrong in a preset, as data and as one message: key, file, what was found, what is allowed."""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from gradscope.core.text import visible
from gradscope.errors import GradscopeError

LONGEST_SHOWN = 60
KINDS = {dict: "a table", list: "a list", type(None): "nothing"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing wrong with a preset, before it is known which file or option brought it in."""

    keys: tuple[str, ...]
    """The dotted keys in question, the offending one first."""
    found: str
    allowed: str
    hint: str = ""

    def error(self, source: str) -> GradscopeError:
        """Make the error of it; `source` is the file or the `-s` text that set the first key."""
        keys = " and ".join(shortened(key) for key in self.keys)
        return GradscopeError(
            f"{keys} in {shortened(source, 300)}: found {self.found}, allowed {self.allowed}", self.hint
        )


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name closest to `name`, whatever the case of its letters, or `None` if none is close.

    Letters in another order (`adma`) count as closest. Of names that differ in case only, the first is returned.
    """
    by_lower: dict[str, str] = {}
    for text in known:
        by_lower.setdefault(text.lower(), text)
    close = get_close_matches(name.lower(), list(by_lower), cutoff=0.65)
    close.sort(key=lambda text: sorted(text) != sorted(name.lower()))
    return by_lower[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the hint with the nearest name; empty if none is close."""
    close = nearest(name, known)
    return f"did you mean {close}?" if close else ""


def shown(value: Any) -> str:
    """Return a value as a message shows it: text in quotes, no more than a line's part of it."""
    if isinstance(value, str):
        return f'"{shortened(value)}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and abs(value) >= 10**LONGEST_SHOWN:
        return f"a number of more than {LONGEST_SHOWN} digits"
    if isinstance(value, int | float):
        return str(value)
    return KINDS.get(type(value), f"a {type(value).__name__}")


def shortened(text: str, length: int = LONGEST_SHOWN) -> str:
    """Return foreign text as a message can hold it: no control characters, and no more than its beginning."""
    text = visible(text)
    return text if len(text) <= length else f"{text[:length]}..."


def either(words: Iterable[str]) -> str:
    """Return `a`, `a or b`, `a, b or c`."""
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last
