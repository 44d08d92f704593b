"""What works on this machine, and the remedy for what does not: one small function a check."""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from gradscope.core.check import Check
from gradscope.core.units import format_bytes
from gradscope.errors import GradscopeError
from gradscope.launch.probe import ProbeFailed, TorchFacts, probe_torch
from gradscope.launch.tensorboard import USUAL_PORT, check_tensorboard, choose_port, ssh_forward
from gradscope.rundir.registry import running, state_folder
from gradscope.sampling.diagnose import diagnose

PYTHON = ((3, 11), (3, 14))
"""From the first, and below the second."""

TORCH_LEAST = (2, 8)
TRANSFORMERS_LEAST = (5, 0)

LITTLE_DISK_BYTES = 1024**3
"""Room for a run with a large trace or two."""

SETUPTOOLS_REMEDY = "pip install --upgrade tensorboard torch-tb-profiler, or pip install 'setuptools<81'"
"""pkg_resources, which old versions import, left setuptools with version 82 (tensorflow/tensorboard#7064)."""


def run_checks(out: Path, env: Mapping[str, str], say: Callable[[str], None]) -> list[Check]:
    """Make all checks, telling `say` which slow one is under way."""
    say("importing torch in another process")
    facts = probe_torch()
    first_uuid = facts.devices[0].uuid if isinstance(facts, TorchFacts) and facts.devices else None
    checks = [python_check(), torch_check(facts), transformers_check()]
    say("asking NVML")
    cards = diagnose(env, first_uuid)
    checks += [cuda_check(facts, cards), *cards]
    say("importing tensorboard in another process")
    return [*checks, tensorboard_check(), port_check(env), output_check(out), disk_check(out), registry_check()]


def python_check(running_version: tuple[int, ...] = sys.version_info[:3]) -> Check:
    """Is this a Python that gradscope is tested on?"""
    text = ".".join(map(str, running_version))
    ok = PYTHON[0] <= running_version[:2] < PYTHON[1]
    wanted = f"use Python {PYTHON[0][0]}.{PYTHON[0][1]} to {PYTHON[1][0]}.{PYTHON[1][1] - 1}"
    return Check(name="Python", ok=ok, detail=f"{text} at {sys.executable}", remedy="" if ok else wanted, needed=True)


def torch_check(facts: TorchFacts | ProbeFailed) -> Check:
    """Does torch import, and is it new enough?"""
    installed = _version("torch")
    if installed is None:
        return Check(name="torch", ok=False, detail="not installed", remedy="pip install 'torch>=2.8'", needed=True)
    if isinstance(facts, ProbeFailed):
        detail = f"{installed} does not import: {facts.reason}"
        return Check(name="torch", ok=False, detail=detail, remedy="pip install --force-reinstall torch", needed=True)
    ok = _number(facts.version) >= TORCH_LEAST
    build = f"built for CUDA {facts.cuda}" if facts.cuda else "built without CUDA"
    remedy = "" if ok else "pip install --upgrade 'torch>=2.8'"
    return Check(name="torch", ok=ok, detail=f"{facts.version}, {build}", remedy=remedy, needed=True)


def transformers_check() -> Check:
    """Is transformers there, and new enough? It is not imported: that takes seconds."""
    installed = _version("transformers")
    ok = installed is not None and _number(installed) >= TRANSFORMERS_LEAST
    remedy = "" if ok else "pip install --upgrade 'transformers>=5,<6'"
    return Check(name="transformers", ok=ok, detail=installed or "not installed", remedy=remedy, needed=True)


def cuda_check(facts: TorchFacts | ProbeFailed, cards: list[Check]) -> Check:
    """Does torch see the cards that NVML sees? A machine without a card is fine: runs are then on the CPU."""
    has_card = any(check.name.startswith("card ") for check in cards)
    if isinstance(facts, TorchFacts) and facts.devices:
        names = ", ".join(f"cuda:{place} {device.name}" for place, device in enumerate(facts.devices))
        return Check(name="CUDA", ok=True, detail=names)
    if not has_card:
        return Check(
            name="CUDA", ok=False, detail="torch sees no CUDA device", remedy="none needed for runs on the CPU"
        )
    if isinstance(facts, TorchFacts) and facts.cuda is None:
        remedy = "install a CUDA build of torch: see pytorch.org/get-started"
        return Check(name="CUDA", ok=False, detail="there is a card, but torch is built without CUDA", remedy=remedy)
    remedy = "look at CUDA_VISIBLE_DEVICES; the driver may be older than torch's CUDA needs"
    return Check(name="CUDA", ok=False, detail="there is a card, but torch does not see it", remedy=remedy)


def tensorboard_check() -> Check:
    """Do TensorBoard and the profiler's plugin import? Runs and summaries work without them."""
    versions = [f"{name} {_version(name) or 'not installed'}" for name in ("tensorboard", "torch-tb-profiler")]
    try:
        check_tensorboard()
    except GradscopeError as error:
        remedy = SETUPTOOLS_REMEDY if "pkg_resources" in error.message else error.hint
        return Check(name="TensorBoard", ok=False, detail=error.message, remedy=remedy)
    return Check(name="TensorBoard", ok=True, detail=", ".join(versions))


def port_check(env: Mapping[str, str]) -> Check:
    """Is TensorBoard's usual port free, and how is it reached from where the user sits?"""
    name = f"port {USUAL_PORT}"
    port = choose_port(None)
    forward = ssh_forward(port, env)
    reach = f"; from the machine you sit at: {forward}" if forward else ""
    if port == USUAL_PORT:
        return Check(name=name, ok=True, detail=f"free{reach}")
    remedy = "`gradscope tensorboard` takes a free one by itself"
    return Check(name=name, ok=False, detail=f"taken, {port} is free{reach}", remedy=remedy)


def output_check(out: Path) -> Check:
    """Can runs be written?"""
    folder = existing(out)
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        detail = f"{folder.absolute()} cannot be written: {error.strerror}"
        remedy = "choose another output root with --out"
        return Check(name="output root", ok=False, detail=detail, remedy=remedy, needed=True)
    return Check(name="output root", ok=True, detail=f"{out.absolute()} can be written", needed=True)


def disk_check(out: Path) -> Check:
    """Is there room for runs?"""
    try:
        free = shutil.disk_usage(existing(out)).free
    except OSError as error:
        return Check(name="disk space", ok=False, detail=f"unknown: {error.strerror}", remedy="look at the mount")
    ok = free >= LITTLE_DISK_BYTES
    remedy = "" if ok else "free some space, or choose another output root with --out"
    return Check(name="disk space", ok=ok, detail=f"{format_bytes(free)} free", remedy=remedy)


def registry_check() -> Check:
    """Can running runs be listed, so that `gradscope attach` finds them from any folder?"""
    folder = state_folder()
    if not os.access(existing(folder), os.W_OK | os.X_OK):
        remedy = "set XDG_STATE_HOME to a folder that can be written; runs work, and are found by their path"
        return Check(name="running runs", ok=False, detail=f"{folder} cannot be written", remedy=remedy)
    going = [handle.run_id for handle in running()]
    return Check(name="running runs", ok=True, detail=", ".join(going) or "none")


def existing(path: Path) -> Path:
    """Return `path`, or the nearest folder above it that exists."""
    path = path.absolute()
    return next((folder for folder in (path, *path.parents) if folder.exists()), path)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _number(text: str) -> tuple[int, int]:
    """Return the first two parts of a version."""
    parts = [int(part) for part in re.findall(r"\d+", text)[:2]]
    return (parts[0] if parts else 0, parts[1] if len(parts) > 1 else 0)
