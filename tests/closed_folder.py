"""A folder that this user may not read, also where the tests run as a user who may read everything."""

import io
import os
from pathlib import Path
from typing import Any

import pytest


def close_folder(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let the system refuse what it refuses of a folder of mode 000: listing it, and all that lies in it."""
    closed = str(folder)

    def refused(path: Any, *, itself: bool) -> bool:
        if isinstance(path, int):
            return False
        text = os.fspath(path)
        return isinstance(text, str) and (text.startswith(f"{closed}{os.sep}") or (itself and text == closed))

    def closing(function: Any, *, itself: bool) -> Any:
        def guarded(path: Any = ".", *arguments: Any, **named: Any) -> Any:
            if refused(path, itself=itself):
                raise PermissionError(13, "Permission denied", str(path))
            return function(path, *arguments, **named)

        return guarded

    for name in ("scandir", "listdir"):
        monkeypatch.setattr(os, name, closing(getattr(os, name), itself=True))
    for name in ("stat", "lstat", "open", "mkdir"):
        monkeypatch.setattr(os, name, closing(getattr(os, name), itself=False))
    monkeypatch.setattr(io, "open", closing(io.open, itself=False))
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, *modes: not refused(path, itself=True) and access(path, *modes))
