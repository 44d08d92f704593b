"""A rough figure of what a run will take, where none like it has finished on this machine: a rule over model sizes.

Memory, in bytes, with 4 bytes a float:

- parameters, their gradients, and the optimizer's state: `4 P (2 + s)`, s floats of state a parameter (`STATE_FLOATS`);
- activations kept for backward, of one micro-batch: for each tower `4 rows tokens width layers f`, f floats for each
  element of a layer's input (`Tower.floats`). Under checkpointing a layer keeps its input alone, and one layer at a
  time is recomputed: `layers + f` in place of `layers f`;
- logits over a vocabulary, their log-softmax and their gradient: `3 * 4 rows positions vocabulary`;
- in half precision 0.6 of the activations, and a 2-byte copy of the weights, since autocast keeps float32 ones.

Time: `6 * parameters * tokens` floating-point operations a row and update (8 with recomputation), at
`CPU_FLOPS_PER_SECOND` a thread or `GPU_SHARE` of the card's peak; a step that searches a line evaluates three times.
Steps are warm-up, measured, one for memory, profiled ones twice, and two rows for the audit; `START_SECONDS` are for
imports before them and the writing up after them.

Against the tiny presets, measured on two cores of a server at 2.9 GHz, memory comes out within 15 % and time within a
factor of 1.5. On other machines a factor of 3 is to be expected: the screen says `rough`.
"""

import math
from dataclasses import dataclass

from gradscope.analysis.cards import peak_flops_per_second
from gradscope.analysis.machine import Machine
from gradscope.config.catalogue import CLOSURE_OPTIMIZERS
from gradscope.config.resolve import rows_per_micro_batch, samples_per_update
from gradscope.config.schema import Preset

FLOAT_BYTES = 4
CPU_FLOPS_PER_SECOND = 40e9
"""Of one thread in float32."""
GPU_FLOPS_PER_SECOND = 10e12
"""Of a card whose data sheet is not known."""
GPU_SHARE = 0.3
"""Of the data sheet's peak that training reaches."""
START_SECONDS = 5.0
HALF_SHARE = 0.6
LINE_SEARCH_EVALUATIONS = 3

STATE_FLOATS = {"sgd": 0, "adagrad": 1, "rmsprop": 1, "cgd": 3}
"""Floats of optimizer state a parameter; 2, as of Adam, for all others."""
USUAL_STATE_FLOATS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Tower:
    """One stack of layers: a vision or a language model."""

    parameters: int
    layers: int
    width: int
    floats: float = 17.0
    """Kept for backward for each element of a layer's input; more where the feed-forward part is wide or gated."""
    patch: int | None = None
    """Side of a patch, for towers that read images; others read tokens."""
    image: int = 0
    """Side of the image where the preset does not say it."""
    extra_tokens: int = 0
    """Beside patches or tokens: a class token, or an image's tokens before its caption."""
    vocabulary: int = 0
    """Logits for each position of the text; 0 for a tower that has none to speak of."""
    labelled: float = 1.0
    """Share of positions that logits are computed for."""

    def tokens(self, preset: Preset) -> int:
        """Return the tokens of one row."""
        if self.patch is None:
            return preset.data.sequence_length + self.extra_tokens
        return ((preset.data.image_size or self.image) // self.patch) ** 2 + self.extra_tokens


TOWERS: dict[tuple[str, str], tuple[Tower, ...]] = {
    ("vit", "tiny"): (Tower(parameters=473_289, layers=4, width=96, patch=8, image=64, extra_tokens=1),),
    ("vit", "full"): (Tower(parameters=86_567_656, layers=12, width=768, patch=16, image=224, extra_tokens=1),),
    ("modernbert", "tiny"): (Tower(parameters=354_560, layers=4, width=96, vocabulary=320, labelled=0.3),),
    ("modernbert", "full"): (Tower(parameters=149_655_232, layers=22, width=768, vocabulary=50_368, labelled=0.3),),
    ("llama", "tiny"): (Tower(parameters=437_088, layers=4, width=96, floats=19, vocabulary=320),),
    ("llama", "full"): (Tower(parameters=1_235_814_400, layers=16, width=2048, floats=24, vocabulary=128_256),),
    ("nanovlm", "tiny"): (
        Tower(parameters=286_080, layers=3, width=96, patch=8, image=64),
        Tower(parameters=437_088, layers=4, width=96, extra_tokens=16, vocabulary=320),
    ),
    ("nanovlm", "full"): (
        Tower(parameters=87_566_592, layers=12, width=768, patch=16, image=224),
        Tower(parameters=134_515_008, layers=30, width=576, floats=19, extra_tokens=49, vocabulary=49_152),
    ),
}
"""By name and scale; the vision tower of nanovlm has the projector with it."""


def towers_of(preset: Preset) -> tuple[Tower, ...]:
    """Return a model's towers; none for a model that is not the catalogue's, or whose options may change its size."""
    return () if preset.model.options else TOWERS.get((preset.model.name, preset.model.scale), ())


def rough_peak_bytes(preset: Preset) -> int | None:
    """Return the most memory that one update is likely to hold; `None` for a model of unknown size."""
    towers = towers_of(preset)
    if not towers:
        return None
    half = preset.run.precision != "fp32"
    parameters = sum(tower.parameters for tower in towers)
    state = STATE_FLOATS.get(preset.optimizer.name.lower(), USUAL_STATE_FLOATS)
    kept = sum(_activation_floats(tower, preset) for tower in towers) * FLOAT_BYTES
    copies = 2 * parameters if half else 0
    return round(FLOAT_BYTES * parameters * (2 + state) + copies + kept * (HALF_SHARE if half else 1))


def _activation_floats(tower: Tower, preset: Preset) -> float:
    rows = rows_per_micro_batch(preset)[0]
    checkpoints = preset.memory.strategy.startswith("checkpoint")
    layers = tower.layers + tower.floats if checkpoints else tower.layers * tower.floats
    logits = 3 * preset.data.sequence_length * tower.labelled * tower.vocabulary
    return rows * (tower.tokens(preset) * tower.width * layers + logits)


def rough_step_seconds(preset: Preset, machine: Machine, *, on_gpu: bool) -> float | None:
    """Return the likely time of one update; `None` for a model of unknown size."""
    towers = towers_of(preset)
    if not towers:
        return None
    a_token = 8 if preset.memory.strategy.startswith("checkpoint") else 6
    operations = sum(a_token * tower.parameters * tower.tokens(preset) for tower in towers) * samples_per_update(preset)
    if preset.optimizer.name.lower() in CLOSURE_OPTIMIZERS:
        operations *= LINE_SEARCH_EVALUATIONS
    return operations / _flops_per_second(preset, machine, on_gpu=on_gpu)


def _flops_per_second(preset: Preset, machine: Machine, *, on_gpu: bool) -> float:
    if not on_gpu:
        return CPU_FLOPS_PER_SECOND * min(preset.run.threads or machine.cores, machine.cores)
    peak = peak_flops_per_second(None if machine.gpu is None else machine.gpu.name, preset.run.precision)
    return GPU_FLOPS_PER_SECOND if peak is None else GPU_SHARE * peak


def rough_seconds(preset: Preset, machine: Machine, *, on_gpu: bool) -> float | None:
    """Return the likely time of a whole run, from its start to its summary; `None` for a model of unknown size."""
    step_seconds = rough_step_seconds(preset, machine, on_gpu=on_gpu)
    if step_seconds is None:
        return None
    budget = preset.budget
    if budget.seconds is not None:
        measured = budget.seconds
    elif budget.samples is not None:
        measured = math.ceil(budget.samples / samples_per_update(preset)) * step_seconds
    else:
        measured = (budget.updates or 0) * step_seconds
    audit = 2 / samples_per_update(preset) if preset.audit.enabled else 0
    other_steps = preset.run.warmup + 1 + 2 * preset.profile.steps + audit
    seconds = START_SECONDS + measured + other_steps * step_seconds
    limit = preset.run.time_limit_seconds
    return seconds if limit is None else min(seconds, limit + START_SECONDS)
