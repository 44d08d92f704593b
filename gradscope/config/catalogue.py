"""The names a preset may use, what each is, and which module makes it.

Targets are text, so that a list of models costs no import of torch: the worker imports `target` when a run asks for it.
Adding a model, an optimizer, a strategy or a data set is one module and one entry here.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing that a preset can name."""

    name: str
    summary: str
    target: str
    """`module:function` in the worker."""
    needs: str = ""
    """What it needs beyond gradscope's own dependencies, empty for most."""
    tasks: tuple[str, ...] = ()
    """A model's task, or the tasks a data set has rows for; empty where only the worker can tell."""


MODELS: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(
            name="vit",
            summary="ViT-B/16 at 224, image classification, 86.6 M parameters (tiny: 64 px)",
            target="gradscope.worker.models.vit:build",
            tasks=("image-class",),
        ),
        Entry(
            name="modernbert",
            summary="ModernBERT-base, masked-language modelling, 149.7 M parameters",
            target="gradscope.worker.models.modernbert:build",
            tasks=("masked-lm",),
        ),
        Entry(
            name="llama",
            summary="Llama 3.2 1B, causal language modelling, 1.24 B parameters",
            target="gradscope.worker.models.llama:build",
            tasks=("causal-lm",),
        ),
        Entry(
            name="nanovlm",
            summary="nanoVLM-222M, image captioning: SigLIP-B/16-224, pixel shuffle, SmolLM2-135M",
            target="gradscope.worker.models.nanovlm:build",
            tasks=("image-caption",),
        ),
    )
}

MODEL_SCHEMES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(
            name="hf",
            summary="hf:ID_OR_FOLDER, any transformers AutoModel with a loss",
            target="gradscope.worker.models.hub:build",
            needs="the files in a local folder or cache, or a reachable hub",
        ),
        Entry(
            name="py",
            summary="py:MODULE:FACTORY, your own model: a factory that returns a torch.nn.Module",
            target="gradscope.worker.models.user:build",
        ),
    )
}

OPTIMIZERS: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(name="sgd", summary="plain or momentum SGD", target="gradscope.worker.optimizers.builtin:sgd"),
        Entry(name="adam", summary="Adam", target="gradscope.worker.optimizers.builtin:adam"),
        Entry(
            name="adamw",
            summary="Adam with decoupled weight decay",
            target="gradscope.worker.optimizers.builtin:adamw",
        ),
        Entry(name="adagrad", summary="Adagrad", target="gradscope.worker.optimizers.builtin:adagrad"),
        Entry(name="adadelta", summary="Adadelta", target="gradscope.worker.optimizers.builtin:adadelta"),
        Entry(
            name="cgd",
            summary="nonlinear conjugate gradient, Polak-Ribiere+ with a strong-Wolfe search",
            target="gradscope.worker.optimizers.builtin:cgd",
        ),
    )
}

OPTIMIZER_SCHEMES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(
            name="pytorch_optimizer",
            summary="pytorch_optimizer:NAME, any optimizer of that package",
            target="gradscope.worker.optimizers.extra:build",
            needs="the package pytorch-optimizer",
        ),
    )
}

STRATEGIES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(
            name="standard",
            summary="all activations kept, one batch an update",
            target="gradscope.worker.strategies.standard:STRATEGY",
        ),
        Entry(
            name="checkpoint",
            summary="activations of each block recomputed in backward",
            target="gradscope.worker.strategies.checkpoint:STRATEGY",
        ),
        Entry(
            name="accumulate",
            summary="gradients of k micro-batches summed for one update",
            target="gradscope.worker.strategies.accumulate:STRATEGY",
        ),
        Entry(
            name="checkpoint-accumulate",
            summary="both",
            target="gradscope.worker.strategies.checkpoint_accumulate:STRATEGY",
        ),
    )
}

DATASETS: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(
            name="shapes",
            summary="made-up scenes of coloured shapes with class labels and captions",
            target="gradscope.worker.data.shapes:build",
            tasks=("image-class", "image-caption", "masked-lm", "causal-lm"),
        ),
        Entry(
            name="text",
            summary="English that ships with Python, byte-level tokens",
            target="gradscope.worker.data.text:build",
            tasks=("masked-lm", "causal-lm"),
        ),
        Entry(name="random", summary="random inputs of the right shape", target="gradscope.worker.data.noise:build"),
        Entry(
            name="file",
            summary="a local text file (data.path)",
            target="gradscope.worker.data.files:build_text",
            tasks=("masked-lm", "causal-lm"),
        ),
        Entry(
            name="folder",
            summary="a local folder of images, one folder a class (data.path)",
            target="gradscope.worker.data.files:build_images",
            tasks=("image-class", "image-caption"),
        ),
    )
}

DATASET_SCHEMES: dict[str, Entry] = {
    "hf": Entry(
        name="hf",
        summary="hf:DATASET, a data set of the Hugging Face hub or a local folder of one",
        target="gradscope.worker.data.hub:build",
        needs="the package datasets, and a reachable hub or local files",
    )
}

TORCH_OPTIMIZERS = (
    "ASGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "LBFGS",
    "Muon",
    "NAdam",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SGD",
    "SparseAdam",
)
"""Optimizer classes of torch.optim in torch 2.13, for where no torch is installed whose own could be read."""

CLOSURE_OPTIMIZERS = frozenset({"cgd", "lbfgs"})
"""Optimizers, in lower case, that evaluate loss and gradient several times in one update."""

ACCUMULATING = frozenset({"accumulate", "checkpoint-accumulate"})
"""Strategies for which `memory.accumulate` means something."""

DEFAULT_ACCUMULATE = 4
"""Micro-batches an update where a strategy accumulates and the preset does not say how many."""

KINDS: dict[str, tuple[dict[str, Entry], ...]] = {
    "models": (MODELS, MODEL_SCHEMES),
    "optimizers": (OPTIMIZERS, OPTIMIZER_SCHEMES),
    "strategies": (STRATEGIES,),
    "data": (DATASETS, DATASET_SCHEMES),
}
"""What `gradscope presets --list KIND` can list."""
