"""For terminals without UTF-8: every character on its way out becomes one in ASCII, whichever widget drew it."""

import unicodedata
from functools import lru_cache

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from gradscope.core.text import display_width

LOOKALIKES = {
    "-": "\u2500\u2501\u2504\u2505\u2508\u2509\u254c\u254d\u2550\u2574\u2576\u2578\u257a\u257c\u257e"
    "\u2010\u2011\u2012\u2013\u2014\u2212",
    "|": "\u2502\u2503\u2506\u2507\u250a\u250b\u254e\u254f\u2551\u2575\u2577\u2579\u257b\u257d\u257f"
    "\u258d\u258e\u258f\u2595",
    "+": "".join(map(chr, (*range(0x250C, 0x254C), *range(0x2552, 0x2571)))) + "\u2713\u2714",
    "#": "\u2580\u2585\u2586\u2587\u2588\u2589\u258a\u258b\u258c\u2590",
    "_": "\u2581\u2582\u2583\u2584\u2594",
    "%": "\u2593",
    "=": "\u2592",
    ":": "\u2591",
    ">": "\u25b8\u25b6\u25ba\u276f\u203a\u2192",
    "<": "\u25c2\u25c0\u25c4\u276e\u2039\u2190\u23ce",
    "^": "\u25b2\u25b3\u25b4\u2191",
    "v": "\u25bc\u25bd\u25be\u2193",
    ".": "\u00b7\u2022\u2219\u22c5\u25cf\u25cb\u25c9\u25e6",
    "'": "\u2018\u2019\u201a\u2032",
    '"': "\u201c\u201d\u201e\u2033",
    "~": "\u2026\u00b1",
    "x": "\u00d7",
    "X": "\u2717\u2718",
    "u": "\u00b5\u03bc",
    " ": "\u00a0",
    "/": "\u2571",
    "\\": "\u2572",
}
"""Lines, blocks, arrows and marks that widgets draw with, by what stands for them."""

PLAIN = {ord(character): plain for plain, characters in LOOKALIKES.items() for character in characters}


@lru_cache(4096)
def in_ascii(text: str) -> str:
    """Return text of the same width in ASCII: letters without their accents, the rest as question marks."""
    return text if text.isascii() else "".join(map(_plain, text.translate(PLAIN)))


def _plain(character: str) -> str:
    if character.isascii():
        return character
    letter = unicodedata.normalize("NFKD", character)[0]
    width = display_width(character)
    return letter if letter.isascii() and width == 1 else "?" * width


class AsciiFilter(LineFilter):
    """Applied to each line after all else."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the same cells in ASCII."""
        return [Segment(in_ascii(text), style, control) for text, style, control in segments]
