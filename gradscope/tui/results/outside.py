"""What a run screen does outside of the app: writing the run in another format, and TensorBoard."""

from functools import partial
from pathlib import Path

from textual.message import Message

from gradscope.core.text import visible
from gradscope.core.units import format_number_of
from gradscope.errors import GradscopeError
from gradscope.tui.applog import describe
from gradscope.tui.results.dialogs import ExportDialog, TensorBoardScreen
from gradscope.tui.results.report import RunReport
from gradscope.tui.results.server import Server, server_of, stop_if
from gradscope.tui.screens.base import GradscopeScreen

SAID_SECONDS = 6.0
NAMED_FILES = 4
FOLDER = "export"
"""Below a run directory: where its exports go unless the user says otherwise."""


class Outside(GradscopeScreen):
    """A screen of one run that can export it and start TensorBoard over it."""

    report: RunReport | None = None
    """What the folder says; `None` until it was read."""

    class TensorBoardChanged(Message):
        """TensorBoard answers, or has ended."""

        bubble = False

        def __init__(self, error: tuple[str, str] | None) -> None:
            super().__init__()
            self.error = error

    class Exported(Message):
        """Files were written, or not."""

        bubble = False

        def __init__(
            self, paths: tuple[Path, ...], error: tuple[str, str] | None = None, notes: tuple[str, ...] = ()
        ) -> None:
            super().__init__()
            self.paths = paths
            self.error = error
            self.notes = notes

    @property
    def run_path(self) -> Path:
        """The run's folder."""
        raise NotImplementedError

    def action_read_again(self) -> None:
        """Read the folder."""

    # export

    def action_export(self) -> None:
        """Choose a format and write."""
        from gradscope.export.formats import FORMATS

        folder = self.run_path / FOLDER
        names = [(one.name, one.summary) for one in FORMATS.values()]
        self.app.push_screen(ExportDialog(names, folder), self._export)

    def _export(self, chosen: tuple[str, Path] | None) -> None:
        if chosen is not None:
            self.run_worker(partial(self._write, *chosen), thread=True, group="export")

    def _write(self, name: str, target: Path) -> None:
        from gradscope.export.formats import FORMATS

        notes: list[str] = []
        own = target == self.run_path / FOLDER  # what lies there was written by us, and is replaced
        try:
            paths = tuple(FORMATS[name].write(self.run_path, target, force=own, note=notes.append))
            self.post_message(self.Exported(paths, notes=tuple(notes)))
        except (GradscopeError, OSError) as error:
            self.post_message(self.Exported((), describe(error)))

    def on_outside_exported(self, message: Exported) -> None:
        """Say what was written."""
        if message.error is not None:
            self.front.report_error(*message.error)
            return
        lines = [str(path) for path in message.paths[:NAMED_FILES]]
        if (more := len(message.paths) - NAMED_FILES) > 0:
            lines.append(f"and {more} more")
        title = f"{format_number_of(len(message.paths), 'file')} written"
        text = "\n".join(visible(line) for line in [*lines, *message.notes])
        self.notify(text, title=title, markup=False, timeout=SAID_SECONDS)
        self.action_read_again()

    # TensorBoard

    def action_tensorboard(self) -> None:
        """Start TensorBoard over the folder that the run lies in; where it runs, say where, and offer to stop it."""
        server = server_of(self.app)
        if server.address is not None:
            self.app.push_screen(TensorBoardScreen(server.address), self._after_tensorboard)
            return
        if server.starting:
            self.notify("TensorBoard is starting", markup=False, timeout=SAID_SECONDS)
            return
        path = self.run_path
        is_run = self.report is not None and self.report.manifest is not None
        folder = path.parent.parent if is_run else path
        self.notify(f"starting TensorBoard over {visible(str(folder))}", markup=False, timeout=SAID_SECONDS)
        server.start(folder, self._tensorboard_told)

    def _tensorboard_told(self, server: Server, error: tuple[str, str] | None) -> None:
        self.post_message(self.TensorBoardChanged(error))

    def on_outside_tensor_board_changed(self, message: TensorBoardChanged) -> None:
        """Say where it answers, or why it does not."""
        server = server_of(self.app)
        if message.error is not None:
            self.front.report_error(*message.error)
        elif server.address is None:
            self.notify("TensorBoard has ended", markup=False, timeout=SAID_SECONDS)
        elif self.is_current:
            self.app.push_screen(TensorBoardScreen(server.address), self._after_tensorboard)

    def _after_tensorboard(self, stop: bool | None) -> None:
        stop_if(server_of(self.app), stop)
