"""Screens under test: an app around one screen, with a clock that stands still and a size that is known.

async def test_something(show):
    async with show(LiveScreen(feed), size=(80, 24)) as pilot:
        await pilot.press("z")
        assert pilot.app.screen.zoomed
        assert pilot.app.asked == [("open_results", path)]
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from shown_app import ShownApp, make_context
from textual.pilot import Pilot
from textual.screen import Screen

from gradscope.tui.screens.base import Context

Show = Callable[..., AbstractAsyncContextManager[Pilot[None]]]


@pytest.fixture
def context(tmp_path: Path) -> Context:
    """A fixed clock, an empty output root, UTF-8."""
    return make_context(tmp_path / "traces")


@pytest.fixture
def show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, context: Context) -> Show:
    """Return `show(screen, size=(80, 24), context=None)`, an async context manager that yields the pilot."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("NO_COLOR", raising=False)

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
