"""What a warm process imports ahead, so that its children need not."""

import pkgutil
from contextlib import suppress
from importlib import import_module

import gradscope.worker

PROGRAMS = ("gradscope.worker.__main__", "gradscope.worker.warm", "gradscope.worker.estimate")

LATE = ("torch.profiler._cupti_monitor",)
"""What torch imports when it is used."""


def import_all() -> None:
    """Import this package with all its parts, and by them torch and transformers with the shipped models' classes.

    A part that cannot be imported (an optional library is missing) is left to the run that asks for it, and to the
    message that it has then.
    """
    for name in LATE:
        with suppress(ImportError):  # of another version of torch
            import_module(name)
    for found in pkgutil.walk_packages(gradscope.worker.__path__, "gradscope.worker."):
        if not found.name.startswith(PROGRAMS):
            with suppress(ImportError):
                import_module(found.name)
