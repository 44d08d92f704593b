"""A worker's whole life in this process, for tests: a preset in, its exit code and events out."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gradscope.config.convert import preset_to_dict
from gradscope.config.load import load_preset
from gradscope.core import events as ev
from gradscope.core.events import Stage
from gradscope.rundir.control import request
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.manifest import Manifest, write_manifest
from gradscope.worker.main import work

SMALL = (
    "data.batch_size=8",
    "optimizer.name=sgd",
    "optimizer.lr=0.01",
    "run.warmup=2",
    "run.threads=1",
    "profile.steps=0",
    "audit.enabled=false",
    "audit.flops=false",
)
"""What a test's own overrides come on top of."""


class Events:
    """What a run wrote."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.all = RunHandle(run_dir).events()

    def of(self, kind: type[ev.Event]) -> list[Any]:
        return [event for event in self.all if isinstance(event, kind)]

    def one(self, kind: type[ev.Event]) -> Any:
        (event,) = self.of(kind)
        return event

    def steps(self, stage: Stage | None = None) -> list[ev.Step]:
        return [event for event in self.of(ev.Step) if stage is None or event.stage is stage]

    def losses(self) -> list[float | None]:
        return [step.loss for step in self.of(ev.Step)]


def run_engine(run_dir: Path, model: str, overrides: Sequence[str], requests: Sequence[Any] = ()) -> tuple[int, Events]:
    """Run `quick` with a factory of `user_models.py` to its end: 6 updates where `overrides` hold no budget."""
    budget = () if any(one.startswith("budget.") for one in overrides) else ("budget.updates=6",)
    preset = load_preset("quick", [f"model.name=py:tests/user_models.py:{model}", *SMALL, *budget, *overrides])
    run_dir.mkdir()
    write_manifest(
        run_dir,
        Manifest(
            run_id="20261130T000000Z-0a0a0a",
            preset=preset_to_dict(preset),
            created_wall_ns=0,
            host="here",
            boot_id="",
            cwd=os.getcwd(),  # noqa: PTH109
        ),
    )
    for one in requests:
        request(run_dir, one)
    return work(run_dir, None, 0.0), Events(run_dir)
