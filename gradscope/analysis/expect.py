"""What a preset is expected to take on this machine, where the figure comes from, and whether the machine has it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from gradscope.analysis.machine import Machine
from gradscope.analysis.rough import rough_peak_bytes, rough_seconds
from gradscope.analysis.summary import load_summary
from gradscope.config.convert import preset_to_dict
from gradscope.config.resolve import without_grid
from gradscope.config.schema import Preset
from gradscope.core.status import Status
from gradscope.core.units import format_bytes, format_seconds
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.host import host_name
from gradscope.rundir.layout import RUN_ID, safe_name

LOOKED_AT = 20
"""Runs of a preset that are looked at for one with its settings, newest first."""

UNLIKE_TIME = frozenset({"name", "description", "sweep", "claim"})
"""What two presets may differ in and still take the same; `run.seed` beside them."""

OVERHEAD_BYTES = 600 * 1024**2
"""What a process takes beside tensors: torch and transformers, or a CUDA context."""

PATIENCE_SECONDS = 3600.0
"""A run on a CPU that is expected to take longer is meant for a GPU."""


class Source(StrEnum):
    """Where an expectation comes from."""

    LAST_RUN = "last run"
    ROUGH = "rough"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Expected:
    """Time from start to summary, and most memory held by tensors."""

    seconds: float | None
    peak_bytes: int | None
    source: Source


@dataclass(frozen=True, slots=True)
class Outlook:
    """What to expect of a run on this machine."""

    expected: Expected
    on_gpu: bool
    fits: bool | None
    """Whether its memory does; `None` where one of the two is not known."""
    obstacle: str
    """Why it will not run, or should not be run here; empty for most."""
    remedy: str


def outlook(preset: Preset, machine: Machine, out: Path | None) -> Outlook:
    """Return what to expect of a preset; of a grid, of its base settings, which is what `run` runs.

    Args:
        preset: Resolved.
        machine: This one.
        out: The output root, where runs of the same preset may lie; `None` for the rough figure, without a look at
            the disk.
    """
    on_gpu = _on_gpu(preset, machine)
    known = None if out is None else of_last_run(preset, out, on_gpu=on_gpu)
    expected = known or rough(preset, machine, on_gpu=on_gpu)
    room = _room_bytes(machine, on_gpu=on_gpu)
    needed = None if expected.peak_bytes is None else expected.peak_bytes + OVERHEAD_BYTES
    fits = None if needed is None or room is None else needed <= room
    obstacle, remedy = _obstacle(preset, machine, on_gpu=on_gpu)
    if not obstacle and fits is False:
        where = machine.gpu.name if on_gpu and machine.gpu else "this machine"
        obstacle = f"needs about {format_bytes(needed)} of memory, and {where} has {format_bytes(room)}"
        remedy = _smaller(preset)
    if not obstacle:
        obstacle, remedy = _patience(preset, machine, expected)
    return Outlook(expected, on_gpu, fits, obstacle, remedy)


def rough(preset: Preset, machine: Machine, *, on_gpu: bool) -> Expected:
    """Return figures by the rule of `gradscope.analysis.rough`."""
    seconds, peak_bytes = rough_seconds(preset, machine, on_gpu=on_gpu), rough_peak_bytes(preset)
    return Expected(seconds, peak_bytes, Source.UNKNOWN if peak_bytes is None else Source.ROUGH)


def of_last_run(preset: Preset, out: Path, *, on_gpu: bool) -> Expected | None:
    """Return what the last finished run with the same settings, machine and kind of device took; `None` if none did."""
    folder = out / safe_name(preset.name)
    try:
        paths = sorted((path for path in folder.iterdir() if RUN_ID.match(path.name)), reverse=True)
    except OSError:  # nothing was run yet, or not readable by this user
        return None
    wanted = _what_counts(preset_to_dict(without_grid(preset)))
    for path in paths[:LOOKED_AT]:
        found = _took(RunHandle(path), wanted, on_gpu=on_gpu)
        if found is not None:
            return found
    return None


def _took(handle: RunHandle, wanted: Mapping[str, Any], *, on_gpu: bool) -> Expected | None:
    try:
        status, manifest = handle.recorded_status(), handle.manifest()
        if status is None or manifest is None or status.status is not Status.DONE or manifest.host != host_name():
            return None
        if _what_counts(manifest.preset) != wanted:
            return None
        summary = load_summary(handle.path)
    except OSError:  # somebody else's, or just being deleted
        return None
    device = summary.identity.device
    if device is not None and device.startswith("cuda") != on_gpu:
        return None
    seconds = (status.updated_wall_ns - manifest.created_wall_ns) / 1e9
    return Expected(seconds if seconds > 0 else None, summary.memory.allocated_peak_bytes, Source.LAST_RUN)


def _what_counts(preset: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in preset.items() if key not in UNLIKE_TIME}
    run = kept.get("run")
    if isinstance(run, Mapping):
        kept["run"] = {key: value for key, value in run.items() if key != "seed"}
    return kept


def _on_gpu(preset: Preset, machine: Machine) -> bool:
    return preset.run.device != "cpu" and (preset.run.device != "auto" or machine.gpu is not None)


def _room_bytes(machine: Machine, *, on_gpu: bool) -> int | None:
    if not on_gpu:
        return machine.memory_bytes
    return None if machine.gpu is None else machine.gpu.memory_bytes


def _smaller(preset: Preset) -> str:
    """Return what takes less memory, of what is not the preset's choice already."""
    ways = [] if preset.model.scale == "tiny" else ["set model.scale to tiny"]
    if preset.data.batch_size > 1:
        ways.append("lower data.batch_size")
    if not preset.memory.strategy.startswith("checkpoint"):
        ways.append("set memory.strategy to checkpoint")
    if preset.optimizer.name != "sgd":
        ways.append("try an optimizer that keeps less")
    return ", or ".join(ways) or "choose a smaller model"


def _patience(preset: Preset, machine: Machine, expected: Expected) -> tuple[str, str]:
    """Return that a run takes longer on this CPU than one waits for, and what makes it shorter."""
    seconds = expected.seconds
    if machine.gpu is not None or seconds is None or seconds <= PATIENCE_SECONDS or preset.budget.seconds is not None:
        return "", ""
    budget = "budget.samples" if preset.budget.samples is not None else "budget.updates"
    smaller = "" if preset.model.scale == "tiny" else ", or set model.scale to tiny"
    return f"is meant for a GPU: about {format_seconds(seconds)} on this CPU", f"lower {budget}{smaller}"


def _obstacle(preset: Preset, machine: Machine, *, on_gpu: bool) -> tuple[str, str]:
    """Return why the preset wants a GPU that is not there, and what to do."""
    if machine.gpu is not None:
        return "", ""
    if on_gpu:
        return f'needs a GPU (run.device = "{preset.run.device}"): {machine.no_gpu}', machine.no_gpu_remedy
    if preset.run.precision == "fp16":
        return f'needs a GPU (run.precision = "fp16"): {machine.no_gpu}', "set run.precision to fp32 or bf16"
    if any(claim.needs == "cuda" for claim in preset.claim):
        return f"needs a GPU for its claims: {machine.no_gpu}", machine.no_gpu_remedy
    return "", ""
