"""The command palette: every action of the current screen, the screens there are, and the themes."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider

from gradscope.tui.bindings import Command, commands_of
from gradscope.tui.screens.base import Front
from gradscope.tui.themes import THEMES
from gradscope.tui.widgets.foreign import literal


class ScreenCommands(Provider):
    """What the keys of the current screen do, and what can be done from anywhere."""

    async def discover(self) -> Hits:
        """List everything, in the order of the help."""
        for name, help_text, run in self._entries():
            yield DiscoveryHit(literal(name), run, text=name, help=help_text)

    async def search(self, query: str) -> Hits:
        """List what fits what was typed."""
        matcher = self.matcher(query)
        for name, help_text, run in self._entries():
            score = matcher.match(name)
            if score > 0:
                yield Hit(score, matcher.highlight(name), run, text=name, help=help_text)

    # keys without an explanation move about: nothing to choose from a list
    def _entries(self) -> Iterator[tuple[str, str, Callable[[], Any]]]:
        commands = commands_of(self.screen)
        for command in commands:
            if command.enabled and command.explanation and command.action != "command_palette":
                yield _title(command), command.explanation, partial(self._run, command)
        if not any(command.name == "all runs" for command in commands):
            yield "all runs", "Every run below the output root", partial(cast("Front", self.app).open_runs)
        for theme in THEMES:
            yield f"theme: {theme}", "How the app looks; kept for the next start", partial(self._use_theme, theme)

    async def _run(self, command: Command) -> None:
        await self.app.run_action(command.action, command.node)

    def _use_theme(self, name: str) -> None:
        self.app.theme = name


def _title(command: Command) -> str:
    return f"{command.name}  ({' '.join(command.keys)})"
