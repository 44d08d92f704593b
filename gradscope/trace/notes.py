"""What loading has to say, in sentences: what was repaired, what was left out, what had to be guessed."""

from collections.abc import Iterator

from gradscope.core.units import format_number_of
from gradscope.trace.frames import TraceNote
from gradscope.trace.scan import UNKNOWN_OFFSET, Tally

REPAIRED = {
    "control character": "{n} repaired: raw control characters in text",
    "invalid UTF-8": "{n} repaired: bytes that are no UTF-8, decoded as U+FFFD",
    "surrogate": "{n} repaired: escapes that are no character, shown as U+FFFD",
    "backslash": (
        "{n} repaired: single backslashes, as in paths on Windows; what looks like an escape there (\\n, \\t) was taken"
        " as a part of the path, and where a path holds nothing else it may be altered"
    ),
    "quote": "{n} repaired: quotes inside of names; which ones close a name is a guess",
    "bare word": "{n} null: written as inf, NaN or N/A, left out of sums and means",
    "number": "{n} left empty: no number, or one beyond 64 bit",
    "implausible size": "{n} left empty: more bytes than any machine has (64 TiB)",
}
LEFT_OUT = {
    "unreadable event": "{n} left out: not readable as JSON even after repair",
    "no event": "{n} of the list left out: no event",
    "no phase": "{n} left out: no phase (`ph`)",
    "missing time": "{n} left out: no time (`ts`)",
    "missing duration": "{n} left out: slices without a duration (`dur`)",
    "negative duration": "{n} left out: negative durations",
    "zero time": "{n} left out: slices at time 0 with duration 0, never stamped by the profiler",
    "implausible time": "{n} left out: times far outside of the rest of the trace",
    "begin without an end": "{n} left out: begins (`B`) without an end (`E`)",
    "end without a begin": "{n} left out: ends (`E`) without a begin (`B`)",
}
THINGS = {"no event": "entry", "bare word": "value", "number": "value", "implausible size": "value"}
WARN_SHARE = 0.01
HINTS = {
    "truncated": "the file ends before its list of events does: what follows is lost",
    "header_cut": "the file ends before what stands behind its events does: that is lost, the events are whole",
    "text_after_end": "more text follows the end of the trace and is left out: were two files joined into one?",
    "damaged_gzip": "the file is damaged: {detail}",
    "legacy_format": "a bare list of events, as builds without Kineto write: no device properties",
    "header_unreadable": "what stands around the events could not be read: device and rank are unknown",
    "no_usable_events": "no usable events",
}


def hint(code: str, detail: str = "") -> TraceNote:
    """Return a note that counts nothing."""
    return TraceNote(code, HINTS[code].format(detail=detail))


def notes_from(tally: Tally, *, total: int) -> Iterator[TraceNote]:
    """Yield a note for each kind of repair and of loss.

    Args:
        tally: What happened, and where first.
        total: How many events the file holds.
    """
    for texts in (REPAIRED, LEFT_OUT):
        for kind, text in texts.items():
            if count := tally.counts[kind]:
                yield TraceNote(_code(kind), text.format(n=_things(kind, count)) + _place(tally, kind), count)
    lost = sum(tally.counts[kind] for kind in LEFT_OUT)
    if total and lost > WARN_SHARE * total:
        yield TraceNote("much_unusable", f"{100 * lost / total:.1f} % of the file's events are unusable", lost)


def _code(kind: str) -> str:
    return kind.lower().replace("utf-8", "utf8").replace(" ", "_")


def _things(kind: str, count: int) -> str:
    thing = THINGS.get(kind, "event")
    return f"{count} entries" if thing == "entry" and count != 1 else format_number_of(count, thing)


def _place(tally: Tally, kind: str) -> str:
    if (place := tally.first.get(kind)) is None:
        return ""
    index, offset = place
    return f" (first: event {index}" + (")" if offset == UNKNOWN_OFFSET else f", byte {offset})")
