"""How the app looks: dark, light, high contrast, the terminal's own 16 colours, and none at all."""

from collections.abc import Mapping
from types import MappingProxyType

from textual.theme import Theme

DARK = Theme(
    name="dark",
    primary="#56b4e9",
    secondary="#0072b2",
    accent="#e69f00",
    warning="#e69f00",
    error="#e5603b",
    success="#2fb389",
    foreground="#d8dee6",
    background="#101418",
    surface="#161b21",
    panel="#1f262e",
    dark=True,
    variables={
        "block-cursor-foreground": "#101418",
        "block-cursor-background": "#56b4e9",
        "block-cursor-text-style": "none",
        "block-cursor-blurred-background": "#2b3642",
        "border": "#56b4e9",
        "border-blurred": "#3a4653",
        "footer-key-foreground": "#e69f00",
        "footer-background": "#161b21",
        "input-selection-background": "#56b4e9 35%",
        "text-muted": "#93a0ad",
        "text-disabled": "#66727e",
    },
)

LIGHT = Theme(
    name="light",
    primary="#0062a3",
    secondary="#56b4e9",
    accent="#a35a00",
    warning="#a35a00",
    error="#b83a12",
    success="#00704f",
    foreground="#1c2229",
    background="#fbfbf8",
    surface="#f1f1ec",
    panel="#e4e5df",
    dark=False,
    variables={
        "block-cursor-foreground": "#ffffff",
        "block-cursor-background": "#0062a3",
        "block-cursor-text-style": "none",
        "block-cursor-blurred-foreground": "#1c2229",
        "block-cursor-blurred-background": "#cfd8de",
        "border": "#0062a3",
        "border-blurred": "#b4bac0",
        "footer-key-foreground": "#0062a3",
        "footer-background": "#e4e5df",
        "text-muted": "#565f69",
        "text-disabled": "#878f97",
    },
)

CONTRAST = Theme(
    name="high-contrast",
    primary="#00d7ff",
    secondary="#00d7ff",
    accent="#ffff00",
    warning="#ffd700",
    error="#ff8787",
    success="#5fff5f",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#121212",
    boost="#1c1c1c",
    dark=True,
    luminosity_spread=0.05,
    text_alpha=1.0,
    variables={
        "block-cursor-foreground": "#000000",
        "block-cursor-background": "#ffff00",
        "block-cursor-text-style": "bold",
        "block-cursor-blurred-foreground": "#000000",
        "block-cursor-blurred-background": "#c0c0c0",
        "border": "#ffffff",
        "border-blurred": "#a8a8a8",
        "footer-key-foreground": "#ffff00",
        "footer-background": "#000000",
        "text": "#ffffff",
        "text-muted": "#e4e4e4",
        "text-disabled": "#b2b2b2",
    },
)

SIXTEEN = Theme(
    name="16-colours",
    ansi=True,
    primary="ansi_cyan",
    secondary="ansi_cyan",
    accent="ansi_yellow",
    warning="ansi_yellow",
    error="ansi_red",
    success="ansi_green",
    foreground="ansi_default",
    background="ansi_default",
    surface="ansi_default",
    panel="ansi_default",
    boost="ansi_default",
    dark=True,
    variables={
        "ansi-background": "ansi_black",
        "ansi-foreground": "ansi_white",
        "block-cursor-foreground": "ansi_default",
        "block-cursor-background": "ansi_default",
        "block-cursor-text-style": "reverse",
        "block-cursor-blurred-text-style": "bold underline",
        "border": "ansi_cyan",
        "border-blurred": "ansi_default",
        "footer-key-foreground": "ansi_yellow",
        "input-cursor-text-style": "reverse",
        "input-selection-background": "ansi_cyan",
        "input-selection-foreground": "ansi_black",
        "scrollbar": "ansi_cyan",
        "scrollbar-background": "ansi_default",
        "button-focus-text-style": "bold reverse",
    },
)
"""Background and text are the terminal's own, so it is as readable as the shell is, dark or light."""

THEMES: Mapping[str, Theme] = MappingProxyType({theme.name: theme for theme in (DARK, LIGHT, CONTRAST, SIXTEEN)})
"""By name, in the order in which the key for the next one goes through them."""


def first_theme(saved: str, *, colour_system: str | None, no_color: bool) -> str:
    """Return the theme to start with.

    Args:
        saved: What the user chose last; empty if nothing.
        colour_system: Rich's name of what the terminal can show.
        no_color: Whether colours are not wanted.
    """
    if no_color or colour_system in (None, "standard"):
        return SIXTEEN.name
    return saved if saved in THEMES else DARK.name


def next_theme(name: str) -> str:
    """Return the name of the theme after this one."""
    names = list(THEMES)
    return names[(names.index(name) + 1) % len(names)] if name in names else names[0]
