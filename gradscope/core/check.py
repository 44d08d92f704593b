"""The outcome of one check of the environment, as `gradscope doctor` shows it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that works here, or does not."""

    name: str
    ok: bool
    detail: str
    """What was found, in one line."""
    remedy: str = ""
    """What to do about it, in one line; empty where all is well."""
    needed: bool = False
    """Without it not even a run on the CPU works."""
