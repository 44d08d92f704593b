"""The largest batch that fits: by estimates first, then by runs that try it."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gradscope.config.catalogue import ACCUMULATING, STRATEGIES
from gradscope.config.load import apply_overrides
from gradscope.config.resolve import micro_steps
from gradscope.config.schema import Preset
from gradscope.core.status import Status
from gradscope.errors import ExitCode, GradscopeError
from gradscope.launch.estimate import Estimator, Room
from gradscope.rundir.handle import RunHandle

MOST_ROWS = 1 << 20
"""No batch beyond this is looked for."""

MOST_TRIALS = 5

TRIAL_STEP = 0.9
"""What a batch shrinks to where a trial shows that it does not fit."""

TRIAL_SETTINGS = (
    "budget.updates=1",
    "run.warmup=0",
    "run.time_limit_seconds=600",
    "profile.steps=0",
    "audit.enabled=false",
    "audit.flops=false",
    "sampling.enabled=false",
)

RunTrial = Callable[[Preset, Path], RunHandle]
"""Starts a run under a folder and returns when it is over."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The largest batch of one strategy."""

    strategy: str
    batch_size: int | None
    """`data.batch_size`; `None` where not even the smallest fits."""
    foretold_peak_bytes: int | None
    """Of that batch; of the smallest where that does not fit."""
    measured_peak_bytes: int | None = None
    """Of the trial that fitted."""
    trials: int = 0
    room_bytes: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class Tried:
    """What a trial showed."""

    fits: bool
    peak_bytes: int | None
    note: str = ""


def find_batches(
    preset: Preset,
    estimator: Estimator,
    room: Room,
    *,
    say: Callable[[str], None],
    trial: RunTrial | None,
) -> list[Found]:
    """Find the largest batch of each strategy.

    Args:
        preset: What to run; its `data.batch_size` is where the search begins.
        estimator: What foretells.
        room: What a peak may take.
        say: Told what is being looked at.
        trial: Runs the batch that estimates say fits; `None` leaves it at estimates.
    """
    found = []
    for strategy in STRATEGIES:
        parts = [] if strategy in ACCUMULATING else ["memory.accumulate=none"]
        one = apply_overrides(preset, [f"memory.strategy={strategy}", *parts])
        by_estimate = _by_estimate(one, estimator, room, say)
        if trial is None or by_estimate.batch_size is None:
            found.append(by_estimate)
        else:
            found.append(_by_trial(one, by_estimate, estimator, trial, say))
    return found


def largest(
    peak: Callable[[int], int], room_bytes: int, *, start: int, least: int = 1, most: int = MOST_ROWS
) -> int | None:
    """Return the largest batch whose peak is within the room, `None` if there is none from `least` on.

    Peaks grow nearly in proportion, so the next one to look at is where the line through the last two meets the room;
    every third is the middle of what is left, so that it ends whatever the peaks do.

    Args:
        peak: Bytes of a batch; never less for a larger one.
        room_bytes: What fits.
        start: Where to begin.
        least: Smallest batch that is allowed.
        most: Largest that is looked at.
    """
    fits, too_large = least - 1, most + 1
    seen: list[tuple[int, int]] = []
    batch = min(max(start, least), most)
    while True:
        seen.append((batch, peak(batch)))
        if seen[-1][1] <= room_bytes:
            fits = batch
        else:
            too_large = batch
        if too_large - fits <= 1:
            return fits if fits >= least else None
        middle = (fits + too_large) // 2 if too_large <= most else min(2 * fits, most)
        guess = _where_it_meets(seen, room_bytes) if len(seen) % 3 else None
        batch = max(fits + 1, min(too_large - 1, middle if guess is None else guess))


def _where_it_meets(seen: list[tuple[int, int]], room_bytes: int) -> int | None:
    """Return the largest batch below the room on the line through the last two points; one more where it is known."""
    if len(seen) < 2:
        return None
    (a, at_a), (b, at_b) = seen[-2:]
    if a == b or (at_b - at_a) * (b - a) <= 0:
        return None
    guess = b + int((room_bytes - at_b) * (b - a) // (at_b - at_a))
    return guess + 1 if guess in (a, b) else guess


def _by_estimate(preset: Preset, estimator: Estimator, room: Room, say: Callable[[str], None]) -> Found:
    peaks: dict[int, int] = {}

    def peak(rows: int) -> int:
        say(f"estimating {preset.memory.strategy} with data.batch_size = {rows}")
        peaks[rows] = estimator.estimate(_with_rows(preset, rows)).peak_bytes
        return peaks[rows]

    least = micro_steps(preset) if preset.memory.mode == "split" else 1
    batch = largest(peak, room.size_bytes, start=preset.data.batch_size, least=least)
    return Found(
        strategy=preset.memory.strategy,
        batch_size=batch,
        foretold_peak_bytes=peaks.get(least if batch is None else batch),
        room_bytes=room.size_bytes,
        note=f"not even data.batch_size = {least} fits" if batch is None else "",
    )


def _by_trial(
    preset: Preset, foretold: Found, estimator: Estimator, trial: RunTrial, say: Callable[[str], None]
) -> Found:
    """Try what the estimate says; where it does not fit, go down until something does."""
    batch = foretold.batch_size
    assert batch is not None
    least = micro_steps(preset) if preset.memory.mode == "split" else 1
    for number in range(1, MOST_TRIALS + 1):
        say(f"trying {preset.memory.strategy} with data.batch_size = {batch}")
        tried = try_batch(_with_rows(preset, batch), foretold.room_bytes, trial)
        if tried.fits:
            return msgspec.structs.replace(
                foretold,
                batch_size=batch,
                foretold_peak_bytes=(
                    foretold.foretold_peak_bytes
                    if batch == foretold.batch_size
                    else estimator.estimate(_with_rows(preset, batch)).peak_bytes
                ),
                measured_peak_bytes=tried.peak_bytes,
                trials=number,
                note=tried.note,
            )
        if batch == least:
            return msgspec.structs.replace(foretold, batch_size=None, trials=number, note="the smallest did not fit")
        batch = max(least, min(batch - 1, int(batch * TRIAL_STEP)))
    note = f"no batch fitted in {MOST_TRIALS} trials, the last of {batch} rows or more"
    return msgspec.structs.replace(foretold, batch_size=None, trials=MOST_TRIALS, note=note)


def try_batch(preset: Preset, room_bytes: int, trial: RunTrial) -> Tried:
    """Run one update of a preset and look whether it fits.

    Raises:
        GradscopeError: The run failed for another reason than memory.
    """
    from gradscope.analysis.summary import compute

    with tempfile.TemporaryDirectory(prefix="gradscope-trial-") as folder:
        handle = trial(apply_overrides(preset, TRIAL_SETTINGS), Path(folder))
        record, peak = handle.status(), compute(handle).memory.allocated_peak_bytes
        steps = len([event for event in handle.events() if type(event).__name__ == "Step"])
    if record.status is Status.OOM:
        return Tried(False, None)
    if record.status is not Status.DONE and not (record.timed_out and steps):
        raise GradscopeError(
            f"the trial with data.batch_size = {preset.data.batch_size} ended as {record.status}: {record.reason}",
            record.hint or "run it to see why",
            exit_code=ExitCode.FAILED,
        )
    if peak is None:
        return Tried(True, None, "the trial was stopped by its time limit before its peak was measured")
    return Tried(peak <= room_bytes, peak)


def _with_rows(preset: Preset, rows: int) -> Preset:
    return msgspec.structs.replace(preset, data=msgspec.structs.replace(preset.data, batch_size=rows))
