"""Where events begin and end in text that may be anything: whole, cut, or broken in places.

An event ends where the next one plainly begins (`}`, comma, `{` and a key that events have); a piece of text counts as
an event only if it decodes, so a border within a name or a nested list is never believed. What does not decode is
mended; what cannot be mended is left out and counted, and reading goes on at the next plain border.
"""

import re
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

from gradscope.trace.decode import Event, decode_many, decode_mended, decode_one
from gradscope.trace.repair import STRING

EVENT_START = rb'\{\s*"(?:ph|name|cat|pid|tid|ts|dur|args|id|bp|s)"\s*:'
BORDER = re.compile(rb"\}\s*,\s*(?=" + EVENT_START + rb")")
RESUME = re.compile(EVENT_START)
BRACKET = re.compile(STRING + rb'|["{}\[\]]', re.DOTALL)
LIST_END = re.compile(rb"\}\s*\]\s*[,}]")
FILLER = re.compile(rb"[\s,]*")
SCALAR = re.compile(STRING + rb"|[^\s,\[\]{}\"]+", re.DOTALL)

EVENT_BYTES = 1 << 24
"""No event is longer: text in which none ends before this is passed over."""
NEAR_BYTES = 1 << 16
WASTE_BYTES = 1 << 26
TAIL_BYTES = 1 << 14
NESTED_BORDERS = 8
"""How many things that look like borders an event may hold and still be seen as one."""
UNKNOWN_OFFSET = -1


class Stop(Enum):
    """Why a scan ended."""

    REACHED = "reached"  # at or past the place asked for
    CLOSED = "closed"  # the list's closing bracket
    HUNGRY = "hungry"  # more text is needed to go on
    OVER = "over"  # there is no more text


@dataclass(slots=True)
class Tally:
    """What was mended or left out: how often, and where first."""

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, tuple[int, int]] = field(default_factory=dict)
    """kind to (index of the event among the readable ones, offset of its first byte), from the start of the scan."""

    def add(self, kind: str, index: int, offset: int, count: int = 1) -> None:
        """Count something."""
        self.counts[kind] += count
        self.first.setdefault(kind, (index, offset))

    def merge(self, other: "Tally", index: int = 0, offset: int = 0) -> None:
        """Take over another tally whose places count from `index` and `offset`."""
        self.counts += other.counts
        for kind, (event, byte) in other.first.items():
            self.first.setdefault(kind, (event + index, byte if byte == UNKNOWN_OFFSET else byte + offset))


@dataclass(slots=True)
class Scan:
    """Events from a piece of text."""

    events: list[Event]
    tally: Tally
    stop: Stop
    end: int
    """Where reading goes on."""
    spans: list[tuple[int, int]] = field(default_factory=list)
    """Where each event begins and ends; empty where the text was read in one go."""

    @property
    def whole(self) -> bool:
        """Whether it came to the place asked for: what was left out on the way ended before it."""
        return self.stop in (Stop.REACHED, Stop.OVER) and not self.tally.counts["cut event"]


def last_border(text: bytes, start: int = 0) -> tuple[int, int] | None:
    """Return where the last event before a sure border ends and the next begins, or None.

    A border is sure if the text since a border before it is an event by itself.
    """
    window = TAIL_BYTES
    while True:
        begin = max(start, len(text) - window)
        borders = list(BORDER.finditer(text, begin))
        for last in range(len(borders) - 1, max(-1, len(borders) - 1 - NESTED_BORDERS), -1):
            for before in range(last - 1, max(-1, last - 1 - NESTED_BORDERS), -1):
                event = decode_one(text[borders[before].end() : borders[last].start() + 1])
                if event is not None and event.ph is not None:
                    return borders[last].start() + 1, borders[last].end()
        if begin == start:
            return None
        window *= 8


def scan_chunk(text: bytes | memoryview) -> Scan:
    """Read a chunk that starts and ends at borders."""
    if (events := decode_many(text)) is not None:
        return Scan(events, Tally(), Stop.REACHED, len(text))
    return scan(bytes(text), 0, len(text), final=True)


def scan(text: bytes, start: int, goal: int, *, final: bool) -> Scan:
    """Read events one by one from `start` until one ends at or after `goal`.

    Args:
        text: What is known of the file so far.
        start: Where an event, a comma or the closing bracket is expected.
        goal: Where to stop.
        final: Whether nothing follows `text`.
    """
    scanner = _Scanner(text, start, final=final)
    stop = Stop.REACHED
    while scanner.at < goal and (stop := scanner.step()) is Stop.REACHED:
        pass
    return Scan(scanner.events, scanner.tally, stop, scanner.at, scanner.spans)


class _Scanner:
    """One pass over a text, with its place in it."""

    def __init__(self, text: bytes, at: int, *, final: bool) -> None:
        self.text, self.at, self.final = text, at, final
        self._base = at
        self.events: list[Event] = []
        self.spans: list[tuple[int, int]] = []
        self.tally = Tally()
        self._wasted = 0

    def step(self) -> Stop:
        """Take one entry of the list; `at` moves only if it could be taken."""
        begin = FILLER.match(self.text, self.at).end()  # type: ignore[union-attr]  # it matches nothing, too
        if begin >= len(self.text):
            self.at = begin
            return Stop.OVER if self.final else Stop.HUNGRY
        first = self.text[begin : begin + 1]
        if first == b"]":
            self.at = begin + 1
            return Stop.CLOSED
        return self._take_event(begin) if first == b"{" else self._pass_over(begin)

    def _take_event(self, begin: int) -> Stop:
        border = BORDER.search(self.text, begin, begin + EVENT_BYTES)
        near = border.start() + 1 if border else None
        if near is not None and self._take(begin, near):
            return Stop.REACHED
        far = self._balanced_end(begin, within=None if near is None else self._allowance())
        if near is None and far is None and not self.final and len(self.text) - begin < EVENT_BYTES:
            return Stop.HUNGRY
        if far is not None and far != near and self._take(begin, far):
            return Stop.REACHED
        guess = near or far
        if guess is not None and (mended := decode_mended(self.text[begin:guess], quotes=True)):
            self._keep(*mended, begin, guess)
            return Stop.REACHED
        return self._leave_out(begin, guess)

    def _take(self, begin: int, end: int) -> bool:
        piece = self.text[begin:end]
        if (event := decode_one(piece)) is not None:
            self._append(event, begin, end)
            return True
        if (mended := decode_mended(piece)) is not None:
            self._keep(*mended, begin, end)
            return True
        return False

    def _keep(self, event: Event, repairs: Counter[str], begin: int, end: int) -> None:
        for kind, count in repairs.items():
            self.tally.add(kind, len(self.events), begin - self._base, 1 if kind != "bare word" else count)
        self._append(event, begin, end)

    def _append(self, event: Event, begin: int, end: int) -> None:
        self.events.append(event)
        self.spans.append((begin, end))
        self.at = end

    def _leave_out(self, begin: int, end: int | None) -> Stop:
        """Pass over an event that cannot be read, to the next that may be."""
        if end is None:
            closed = LIST_END.search(self.text, begin)
            if closed is None and self.final:
                self.tally.add("cut event", len(self.events), begin - self._base)
                self.at = len(self.text)
                return Stop.OVER
            end = closed.start() + 1 if closed else len(self.text)
        self.tally.add("unreadable event", len(self.events), begin - self._base)
        self.at = end
        return Stop.REACHED

    def _pass_over(self, begin: int) -> Stop:
        """Pass over an entry that is no object, or over garbage."""
        text = self.text
        if text[begin : begin + 1] == b"[":
            end = self._balanced_end(begin, within=EVENT_BYTES)
        else:
            scalar = SCALAR.match(text, begin)
            end = scalar.end() if scalar else None
        if end is None or end >= len(text):
            found = RESUME.search(text, begin + 1)
            if found is None and not self.final and len(text) - begin < EVENT_BYTES:
                return Stop.HUNGRY
            end = found.start() if found else len(text)
        self.tally.add("no event", len(self.events), begin - self._base)
        self.at = end
        return Stop.REACHED

    def _allowance(self) -> int:
        """Return how far to look for an event's end by its brackets: less once much was looked through in vain."""
        return NEAR_BYTES if self._wasted < WASTE_BYTES else NEAR_BYTES // 16

    def _balanced_end(self, begin: int, within: int | None) -> int | None:
        depth, limit = 0, begin + (EVENT_BYTES if within is None else within)
        for token in BRACKET.finditer(self.text, begin, limit):
            first = token.group()[:1]
            if first in b"{[":
                depth += 1
            elif first in b"}]":
                depth -= 1
                if depth == 0:
                    return token.end()
            elif len(token.group()) == 1:  # a string that does not end here
                break
        self._wasted += min(limit, len(self.text)) - begin
        return None
