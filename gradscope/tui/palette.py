"""Colours by meaning. They hold for colour-blind eyes and in 16 colours, and nothing is said by colour alone.

The full colours are those of Okabe and Ito's set for all kinds of colour vision ("Color Universal Design", 2008),
made lighter or darker where a theme needs it.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Colour:
    """One role's colour."""

    full: str
    """As `#rrggbb`, for terminals with 256 colours or more."""
    ansi: str
    """Rich's name of one of the 16 colours."""


PALETTE: dict[str, Colour] = {
    "parameters": Colour("#56b4e9", "blue"),
    "gradients": Colour("#f0e442", "yellow"),
    "optimizer_state": Colour("#009e73", "green"),
    "activations": Colour("#d55e00", "red"),
    "inputs": Colour("#cc79a7", "magenta"),
    "buffers": Colour("#0072b2", "cyan"),
    "reserved": Colour("#999999", "bright_black"),
    "data": Colour("#cc79a7", "magenta"),
    "h2d": Colour("#0072b2", "cyan"),
    "forward": Colour("#56b4e9", "blue"),
    "backward": Colour("#d55e00", "red"),
    "recompute": Colour("#f0e442", "yellow"),
    "optimizer": Colour("#009e73", "green"),
    "other": Colour("#999999", "bright_black"),
    "loss": Colour("#e69f00", "yellow"),
    "throughput": Colour("#56b4e9", "cyan"),
    "busy": Colour("#009e73", "green"),
    "memory_busy": Colour("#56b4e9", "blue"),
    "power": Colour("#e69f00", "yellow"),
    "clock": Colour("#cc79a7", "magenta"),
    "temperature": Colour("#d55e00", "red"),
    "cpu": Colour("#56b4e9", "cyan"),
    "resident": Colour("#009e73", "green"),
    "limit": Colour("#d55e00", "red"),
    "axis": Colour("#808080", "bright_black"),
    "dim": Colour("#808080", "bright_black"),
    "cursor": Colour("#ffffff", "bright_white"),
    "good": Colour("#009e73", "green"),
    "bad": Colour("#d55e00", "red"),
    "warn": Colour("#e69f00", "yellow"),
    "heat_0": Colour("#5c6a8a", "bright_black"),
    "heat_1": Colour("#6f8396", "blue"),
    "heat_2": Colour("#8f9a7d", "cyan"),
    "heat_3": Colour("#c3ad52", "yellow"),
    "heat_4": Colour("#f5d83a", "bright_yellow"),
    "curve_0": Colour("#56b4e9", "cyan"),
    "curve_1": Colour("#e69f00", "yellow"),
    "curve_2": Colour("#009e73", "green"),
    "curve_3": Colour("#cc79a7", "magenta"),
    "curve_4": Colour("#f0e442", "white"),
    "curve_5": Colour("#d55e00", "red"),
}
"""Colours by role; a span whose style is not here is drawn plain."""

MEMORY_ROLES = ("parameters", "buffers", "gradients", "optimizer_state", "inputs", "activations")
"""Memory categories from the bottom of a stack to its top; the index is that of the fill in `Glyphs.fills`."""

PHASE_ROLES = ("data", "h2d", "forward", "backward", "recompute", "optimizer", "other")
"""Phases in the order of a step; the index is that of the fill in `Glyphs.fills`."""
