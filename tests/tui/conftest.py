"""Screens under test: an app around one screen, with a clock that stands still and a size that is known.

async def test_something(show):
    async with show(LiveScreen(feed), size=(80, 24)) as pilot:
        await pilot.press("z")
        assert pilot.app.screen.zoomed
        assert pilot.app.asked == [("open_results", path)]
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.screen import Screen

from gradscope.tui.app import GradscopeApp
from gradscope.tui.glyphs import ASCII, UNICODE
from gradscope.tui.screens.base import Context

NOW_WALL_NS = 1_800_000_000 * 10**9
"""2027-01-15 08:00:00 UTC."""

NOW_MONOTONIC_NS = 5_000 * 10**9

Show = Callable[..., AbstractAsyncContextManager[Pilot[None]]]


class ShownApp(GradscopeApp):
    """An app that starts with the screen under test and writes down where it is asked to go instead of going there."""

    def __init__(self, screen: Screen[Any], context: Context) -> None:
        super().__init__(context)
        self._under_test = screen
        self.asked: list[tuple[Any, ...]] = []
        """Calls of `Front`, such as `("open_run", path)`."""

    def get_default_screen(self) -> Screen[Any]:
        return self._under_test

    def open_run(self, path: Path) -> None:
        self.asked.append(("open_run", path))

    def open_live(self, path: Path) -> None:
        self.asked.append(("open_live", path))

    def open_results(self, path: Path) -> None:
        self.asked.append(("open_results", path))

    def open_runs(self) -> None:
        self.asked.append(("open_runs",))

    def open_compare(self, paths: Sequence[Path]) -> None:
        self.asked.append(("open_compare", *paths))

    def copy_text(self, text: str) -> None:
        self.asked.append(("copy_text", text))
        super().copy_text(text)

    def report_error(self, message: str, hint: str = "") -> None:
        self.asked.append(("report_error", message, hint))
        super().report_error(message, hint)


@pytest.fixture
def context(tmp_path: Path) -> Context:
    """A fixed clock, an empty output root, UTF-8."""
    return make_context(tmp_path / "traces")


def make_context(out: Path, *, ascii_only: bool = False, refresh_seconds: float = 0.5) -> Context:
    """Return what an app is started with, at `NOW_WALL_NS`."""
    return Context(
        out=out,
        glyphs=ASCII if ascii_only else UNICODE,
        refresh_seconds=refresh_seconds,
        now_wall_ns=lambda: NOW_WALL_NS,
        now_monotonic_ns=lambda: NOW_MONOTONIC_NS,
    )


@pytest.fixture
def show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, context: Context) -> Show:
    """Return `show(screen, size=(80, 24), context=None)`, an async context manager that yields the pilot."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    @asynccontextmanager
    async def shown(
        screen: Screen[Any] | Callable[[], Screen[Any]],
        size: tuple[int, int] = (80, 24),
        context: Context = context,
    ) -> AsyncIterator[Pilot[None]]:
        app = ShownApp(screen if isinstance(screen, Screen) else screen(), context)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            yield pilot

    return shown
