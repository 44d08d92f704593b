"""Where presets are: the shipped ones, those in `./presets`, and any file by its path."""

from collections.abc import Iterator
from pathlib import Path

from gradscope.config.problem import did_you_mean, shortened
from gradscope.errors import ExitCode, GradscopeError

LOCAL = Path("presets")
"""The user's own presets, below the current folder; they come before shipped ones of the same name."""


def shipped_folder() -> Path:
    """Return the folder of shipped presets: inside the installed package, or beside it in a checkout.

    Raises:
        GradscopeError: The installation lacks them.
    """
    package = Path(__file__).parent.parent
    for folder in (package / "presets", package.parent / "presets"):
        if (folder / "quick.toml").is_file():
            return folder
    raise GradscopeError(
        f"gradscope's own presets are not beside {package}",
        "install gradscope again, or give the path of a preset file",
        exit_code=ExitCode.ENVIRONMENT,
    )


def is_path(text: str) -> bool:
    """Whether `text` is the path of a preset and not its name."""
    return text.endswith(".toml") or "/" in text


def preset_names() -> list[str]:
    """Return the names that `preset_path` finds, in order of the alphabet."""
    return sorted({path.stem for folder in (LOCAL, shipped_folder()) for path in folder.glob("*.toml")})


def preset_path(name_or_path: str) -> Path:
    """Return the file of a preset.

    Args:
        name_or_path: A path (it ends in `.toml` or holds a slash), else a name in `./presets` or of a shipped preset.

    Raises:
        GradscopeError: There is no such file; the message has the nearest name.
    """
    return next(candidates(name_or_path, Path()), None) or _raise_missing(name_or_path)


def candidates(name_or_path: str, folder: Path) -> Iterator[Path]:
    """Yield the files that a preset's name or path may mean, the likeliest first; paths are relative to `folder`."""
    if is_path(name_or_path):
        paths = [folder / _expanded(name_or_path)]
    else:
        paths = [place / f"{name_or_path}.toml" for place in (LOCAL, shipped_folder())]
    return (path for path in paths if _is_file(path))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False


def _is_folder(text: str) -> bool:
    try:
        return _expanded(text).is_dir()
    except (OSError, ValueError):
        return False


def _expanded(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:  # the home of somebody who does not exist
        return Path(text)


def _raise_missing(name_or_path: str) -> Path:
    text = shortened(name_or_path, 300)
    if is_path(name_or_path):
        what = f"the folder {text} is no preset file" if _is_folder(name_or_path) else f"there is no preset file {text}"
        raise GradscopeError(what, "a preset is a TOML file; `gradscope presets` lists names")
    names = preset_names()
    if _is_file(Path(name_or_path)):
        hint = f"to name the file, write ./{text}"
    else:
        hint = did_you_mean(name_or_path, names) or f"known: {', '.join(names)}"
    raise GradscopeError(f'there is no preset "{text}"', hint)
