"""What two sides of a comparison differ in: the settings that are compared, and the circumstances that spoil it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gradscope.core.status import Status
from gradscope.core.summary import Record, Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """One run as it is compared."""

    summary: Summary
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Its preset by dotted key; empty where only its summary is at hand."""
    path: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One column of a comparison: a run, or several that are repeats of each other."""

    name: str
    runs: tuple[Taken, ...]
    repeated: tuple[str, ...] = ()
    """Ids of runs that were named more than once; each is there once."""

    @property
    def summaries(self) -> list[Summary]:
        """The numbers of its runs."""
        return [run.summary for run in self.runs]


class Unlike(Record, frozen=True, kw_only=True):
    """Something the sides do not share, or a run that is no fair part of a comparison."""

    code: str
    """Stable: `device`, `host`, `versions`, `status`, ..."""
    message: str
    values: tuple[str, ...] = ()
    """One a side."""
    stops_gate: bool = False
    """Whether a gate over it would judge the machine and not the change."""


class Changed(Record, frozen=True, kw_only=True):
    """A setting that is not the same on all sides: what the comparison is about."""

    key: str
    values: list[str]
    """One a side; several values of one side are joined."""


NOT_COMPARED = ("name", "description", "sweep", "claim", "run.seed", "profile", "sampling", "audit")
"""Settings, and tables of them, that change no measured number, or that repeats change."""

DATA_KEYS = ("data.name", "data.path", "data.sequence_length", "data.image_size")
DATA_OPTIONS = "data.options."


def flattened(preset: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a preset's tables as dotted keys, options included."""
    found: dict[str, Any] = {}
    for key, value in preset.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and name not in ("sweep", "claim"):
            found |= flattened(value, f"{name}.")
        else:
            found[name] = value
    return found


def compared_settings(run: Taken) -> dict[str, Any]:
    """Return the settings that make two runs repeats of each other, where all are equal."""
    if run.settings:
        return {
            key: value
            for key, value in run.settings.items()
            if key not in NOT_COMPARED and key.partition(".")[0] not in NOT_COMPARED
        }
    who = run.summary.identity
    return {
        "model.name": who.model,
        "model.scale": who.scale,
        "data.batch_size": who.batch_rows,
        "optimizer.name": who.optimizer,
        "optimizer.lr": who.learning_rate,
        "memory.strategy": who.strategy,
        "memory.accumulate": who.micro_steps,
        "memory.mode": who.accumulation_mode,
        "run.precision": who.precision,
        "run.compile": who.compiled,
        "run.threads": who.threads,
    }


def changed(sides: Sequence[Side]) -> list[Changed]:
    """Return the settings that differ between sides, in the order of a preset."""
    settings = [[compared_settings(run) for run in side.runs] for side in sides]
    keys = dict.fromkeys(key for side in settings for run in side for key in run)
    found = []
    for key in keys:
        values = [", ".join(dict.fromkeys(_text(run.get(key)) for run in side)) for side in settings]
        if len(set(values)) > 1:
            found.append(Changed(key=key, values=values))
    return found


def _text(value: Any) -> str:
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def unlike(sides: Sequence[Side], *, cells: bool = False) -> list[Unlike]:
    """Return what makes the comparison unfair, the worst first.

    Args:
        sides: At least two.
        cells: Whether each side is a grid, whose runs differ among themselves.
    """
    return sorted(_unlike(sides, cells=cells), key=lambda found: not found.stops_gate)


def _unlike(sides: Sequence[Side], *, cells: bool) -> Iterator[Unlike]:
    for code, label, value, stops in CIRCUMSTANCES:
        values = [", ".join(dict.fromkeys(text for run in side.summaries if (text := value(run)))) for side in sides]
        if len({text for text in values if text}) > 1:
            message = f"other {label}: {' | '.join(text or '?' for text in values)}"
            yield Unlike(code=code, message=message, values=tuple(values), stops_gate=stops)
    for code, message in BUDGETS.items():
        values = [", ".join(dict.fromkeys(map(str, _per_run(side, code)))) for side in sides]
        if len({text for text in values if text}) > 1:
            yield Unlike(code=code, message=f"{message}: {' | '.join(values)}", values=tuple(values))
    for side in sides:
        yield from _runs(side, cells=cells)


def _runs(side: Side, *, cells: bool) -> Iterator[Unlike]:
    for run in side.runs:
        state, who = run.summary.status, run.summary.run_id
        if state is not Status.DONE:
            told = f"ended as {state.value}: what it measured counts" if state.is_final else "is not over"
            yield Unlike(code="status", message=f"{who} {told}")
        if run.summary.duration.measured_steps == 0:
            yield Unlike(code="status", message=f"{who} measured no step")
    kinds = {repr(compared_settings(run)) for run in side.runs}
    if len(kinds) > 1 and not cells:
        message = f"{side.name}: runs of {len(kinds)} different settings, taken as repeats of each other"
        yield Unlike(code="mixed", message=message, stops_gate=True)


def _versions(run: Summary) -> str:
    names = ("torch", "transformers", "CUDA", "cuda", "driver", "python")
    found = run.provenance.versions
    return " ".join(f"{name} {found[name]}" for name in names if name in found)


CIRCUMSTANCES: tuple[tuple[str, str, Callable[[Summary], str | None], bool], ...] = (
    ("device", "device", lambda run: (run.identity.device or "").partition(":")[0], True),
    ("device_name", "hardware", lambda run: run.identity.device_name, True),
    ("host", "machine", lambda run: run.provenance.host, False),
    ("threads", "threads", lambda run: str(run.identity.threads or "") if run.identity.device == "cpu" else "", True),
    ("versions", "versions", _versions, False),
    ("precision", "precision", lambda run: run.identity.precision, False),
    ("batch_rows", "batch", lambda run: str(run.identity.batch_rows or ""), False),
    ("peak_source", "source of the peak", lambda run: run.memory.allocated_peak_source, False),
)
"""Code, words, how a run says it (empty: unknown), and whether a gate over it would judge the machine."""

BUDGETS = {
    "updates": "other number of measured updates",
    "samples": "other number of samples",
}


def _per_run(side: Side, code: str) -> list[int]:
    return [
        run.duration.measured_steps if code == "updates" else run.duration.samples
        for run in side.summaries
        if run.duration.measured_steps
    ]


def held_equal(sides: Sequence[Side]) -> list[str]:
    """Return which budgets all runs share: `updates`, `samples`; `seconds` where that is what their presets gave."""
    found = [code for code in BUDGETS if len({count for side in sides for count in _per_run(side, code)}) == 1]
    seconds = {run.settings.get("budget.seconds") for side in sides for run in side.runs}
    return found + (["seconds"] if len(seconds) == 1 and None not in seconds else [])


def same_loss(a: Side, b: Side) -> str:
    """Say why two sides' losses cannot be compared: they are of other things. Empty where they can be."""
    models = {(run.identity.model, run.identity.scale) for side in (a, b) for run in side.summaries}
    if len(models) > 1:
        return "losses of different models"
    known = [_data(run) for side in (a, b) for run in side.runs if run.settings]
    return "losses over different data" if any(one != known[0] for one in known) else ""


def _data(run: Taken) -> dict[str, Any]:
    return {key: value for key, value in run.settings.items() if key in DATA_KEYS or key.startswith(DATA_OPTIONS)}


def equal_seeds(a: Taken, b: Taken) -> bool:
    """Whether equal settings would have given the same losses, bit for bit: on a CPU, with one seed."""
    return all(
        one == other and one is not None
        for one, other in (
            (a.summary.identity.seed, b.summary.identity.seed),
            (a.summary.identity.threads, b.summary.identity.threads),
            (a.summary.provenance.host, b.summary.provenance.host),
            (_versions(a.summary), _versions(b.summary)),
        )
    ) and {a.summary.identity.device, b.summary.identity.device} == {"cpu"}
