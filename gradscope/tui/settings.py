"""What the app remembers from one start to the next."""

from pathlib import Path

import msgspec

from gradscope.rundir.files import read_json, write_json
from gradscope.rundir.registry import state_folder


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Read leniently: what an older or newer version wrote and this one does not know is left out."""

    theme: str = ""
    """Name of the chosen theme; empty for the default."""


def app_folder() -> Path:
    """Return where the app keeps its own files: settings, and the log of its errors."""
    return state_folder().parent


def read_settings() -> Settings:
    """Return what was remembered; the defaults where that cannot be read."""
    try:
        return read_json(app_folder() / "app.json", Settings) or Settings()
    except OSError:  # a home that may not be read
        return Settings()


def write_settings(settings: Settings) -> None:
    """Remember settings.

    Raises:
        OSError: The folder cannot be written.
    """
    app_folder().mkdir(parents=True, exist_ok=True)
    write_json(app_folder() / "app.json", settings)
