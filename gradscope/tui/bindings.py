"""The keys of a screen, as the help and the command palette list them: read from the bindings, never written twice."""

from dataclasses import dataclass
from typing import Any

from textual.binding import ActiveBinding
from textual.dom import DOMNode
from textual.screen import Screen

EVERYWHERE = "everywhere"

UNTOLD = ("screen.copy_text",)
"""Actions of textual that need a mouse."""


@dataclass(frozen=True, slots=True)
class Command:
    """Something that the user can do now."""

    keys: tuple[str, ...]
    """As they are shown, such as `^p`."""
    name: str
    """As in the footer."""
    explanation: str
    """A sentence; may be empty."""
    group: str
    """Where it works."""
    action: str
    node: DOMNode
    """The widget, screen or app whose action it is."""
    enabled: bool


def commands_of(screen: Screen[Any]) -> list[Command]:
    """Return what the bindings that are active on a screen offer, the nearest to the focus first.

    Bindings without a description are not meant to be told; several keys of one action are one command.
    """
    keys: dict[tuple[int, str], list[str]] = {}
    told: dict[tuple[int, str], ActiveBinding] = {}
    for active in screen.active_bindings.values():
        binding = active.binding
        if not binding.description or binding.system or binding.action in UNTOLD:
            continue
        place = (id(active.node), binding.action)
        keys.setdefault(place, []).append(screen.app.get_key_display(binding))
        if place not in told or (binding.id and not told[place].binding.id):  # ours have ids, textual's own have none
            told[place] = active
    return [
        Command(
            keys=tuple(dict.fromkeys(keys[place])),
            name=active.binding.description.lower() if not active.binding.id else active.binding.description,
            explanation=active.tooltip or "",
            group=_group(active),
            action=active.binding.action,
            node=active.node,
            enabled=active.enabled,
        )
        for place, active in told.items()
    ]


def _group(active: ActiveBinding) -> str:
    node = active.node
    if active.binding.action.startswith("app.") and not active.binding.id:
        return EVERYWHERE  # textual's own, such as the keys that move the focus
    if node.BINDING_GROUP_TITLE:
        return node.BINDING_GROUP_TITLE
    if isinstance(node, Screen):
        return "this screen"
    return EVERYWHERE if node is node.app else "where you are"
