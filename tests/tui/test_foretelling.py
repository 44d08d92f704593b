"""Memory foretold from the form and from home: by an estimator that is handed, never by a process."""

import threading
from pathlib import Path
from typing import Any

import pytest
from home_views import CPU_ONLY, Launches, Source, home
from test_edit import go, settle, text_of
from textual.pilot import Pilot

from gradscope.config.schema import Preset
from gradscope.core.estimate import Estimate
from gradscope.errors import GradscopeError
from gradscope.launch.estimate import Estimator
from gradscope.tui.bindings import commands_of
from gradscope.tui.home.form import open_form
from gradscope.tui.screens.edit import EditScreen
from gradscope.tui.screens.home import HomeScreen
from gradscope.tui.widgets.rows import Rows

MIB = 1 << 20
GIB = 1 << 30


class MadeUp:
    """Foretells 40 MiB on a card; waits first where `held`."""

    def __init__(self, error: str = "", free_bytes: int | None = 20 * GIB, held: bool = False) -> None:
        self.error, self.free_bytes = error, free_bytes
        self.asked: list[Preset] = []
        self.go_on = threading.Event()
        self.cancelled = False
        if not held:
            self.go_on.set()

    def __call__(self) -> "MadeUp":
        return self

    def __enter__(self) -> "MadeUp":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def cancel(self) -> None:
        self.cancelled = True
        self.go_on.set()

    def estimate(self, preset: Preset) -> Estimate:
        self.asked.append(preset)
        assert self.go_on.wait(20)
        if self.error or self.cancelled:
            raise GradscopeError(self.error or "its process ended")
        return Estimate(
            parameters_bytes=8 * MIB,
            buffers_bytes=0,
            gradients_bytes=2 * MIB,
            optimizer_state_bytes=0,
            inputs_bytes=0,
            saved_activations_bytes=MIB,
            peak_activations_bytes=MIB,
            at_peak_bytes={"parameters": 8 * MIB, "gradients": 2 * MIB, "activations": 29 * MIB, "inputs": MIB},
            peak_bytes=40 * MIB,
            peak_phase="backward",
            phase_peak_bytes={},
            attention=[],
            device="cuda",
            device_free_bytes=self.free_bytes,
        )


TEXT = "foretold 40.0 MiB at the peak of backward: activations 29.0 MiB, parameters 8.00 MiB, gradients 2.00 MiB"


def edit(estimator: MadeUp, name: str = "quick") -> EditScreen:
    return EditScreen(open_form(name), machine=CPU_ONLY, launcher=Launches(), estimator=estimator)


async def test_m_foretells_the_form_until_a_field_changes(show):
    made = MadeUp()
    async with show(edit(made)) as pilot:
        rough = text_of(pilot, "verdict")
        assert "(rough)" in rough
        await pilot.press("m")
        await settle(pilot)
        assert text_of(pilot, "verdict") == f"ready: ~7.8 s, {TEXT}; fits 19.0 GiB"
        go(pilot, "data.batch_size")
        await pilot.press("enter", "9")
        assert "rough" in text_of(pilot, "verdict")
        await pilot.press("escape")
        assert TEXT in text_of(pilot, "verdict")
        await pilot.press("m")
        await settle(pilot)
        assert len(made.asked) == 1  # known already


async def test_what_does_not_fit_is_marked(show):
    async with show(edit(MadeUp(free_bytes=20 * MIB)), size=(160, 48)) as pilot:
        await pilot.press("m")
        await settle(pilot)
        assert text_of(pilot, "verdict").endswith("; ✗ does not fit 19.0 MiB")
        assert pilot.app.screen.query_one("#verdict", Rows).rows[0][0].style == "warn"


async def test_escape_stops_the_estimate_and_then_goes_back(show):
    made = MadeUp(held=True)
    screens: list[Any] = []
    async with show(HomeScreen(Source(home_view()), estimator=made)) as pilot:
        await settle_reading(pilot)
        await pilot.press("e")
        await pilot.pause()
        screens.append(pilot.app.screen)
        await pilot.press("m")
        await pilot.pause()
        assert "foretelling its memory" in text_of(pilot, "verdict")
        await pilot.press("escape")
        await pilot.pause()
        assert made.cancelled
        assert pilot.app.screen is screens[0]
        assert "(rough)" in text_of(pilot, "verdict")
        await pilot.press("escape")
        await pilot.pause()
        assert isinstance(pilot.app.screen, HomeScreen)


async def test_an_error_is_one_line_of_literal_text(show):
    made = MadeUp(error="it waits for a value [/red]\nand " + "more " * 60)
    async with show(edit(made)) as pilot:
        await pilot.press("m")
        await settle(pilot)
        rows = pilot.app.screen.query_one("#verdict", Rows).rows
        text = text_of(pilot, "verdict")
        assert text.startswith("ready: ~7.8 s, ~33 MiB (rough), fits no estimate: it waits for a value [/red] and more")
        assert text.endswith("…")
        assert len(rows) == 2
        made.error = ""
        await pilot.press("m")  # asked again after an error
        await settle(pilot)
        assert TEXT in text_of(pilot, "verdict")


async def test_a_form_that_is_wrong_is_not_foretold(show):
    made = MadeUp()
    screen = edit(made)
    screen.form = screen.form.with_value("optimizer.lr", "-1")
    async with show(screen) as pilot:
        await pilot.press("m")
        await settle(pilot)
        assert made.asked == []


async def test_leaving_the_form_ends_the_estimate(show):
    made = MadeUp(held=True)
    async with show(edit(made)) as pilot:
        await pilot.press("m")
        await pilot.pause()
        assert not made.cancelled
    assert made.cancelled


async def test_home_foretells_the_highlighted_preset(show):
    made = MadeUp()
    async with show(HomeScreen(Source(home_view()), estimator=made), size=(160, 48)) as pilot:
        await settle_reading(pilot)
        await pilot.press("m")
        await settle_reading(pilot)
        assert f"{TEXT}; fits 19.0 GiB" in text_of(pilot, "facts")
        assert [preset.name for preset in made.asked] == ["quick"]
        await pilot.press("down")
        await pilot.pause()
        assert "foretold" not in text_of(pilot, "facts")
        assert "foretell" in [command.name for command in commands_of(pilot.app.screen)]


def home_view():
    return home(Path("traces"))


async def settle_reading(pilot: Pilot[None]) -> None:
    for _ in range(3):
        await pilot.pause()
        await pilot.app.workers.wait_for_complete()
    await pilot.pause()


def test_a_cancelled_estimator_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradscope.launch.estimate.COMMAND", ["-c", "import time; time.sleep(60)"])
    with Estimator() as estimator:
        timer = threading.Timer(0.2, estimator.cancel)
        timer.start()
        with pytest.raises(GradscopeError, match="its process ended"):
            estimator.estimate(Preset(name="a"))
        timer.join()
        with pytest.raises(GradscopeError, match="its process ended"):
            estimator.estimate(Preset(name="a"))
