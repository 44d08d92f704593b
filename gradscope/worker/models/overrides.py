"""A transformers config from our sizes, the preset's dropout and the preset's own overrides, checked."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from huggingface_hub.errors import StrictDataclassError

from gradscope.config.schema import ModelSettings
from gradscope.errors import GradscopeError
from gradscope.worker.contract import DataSpec, Task
from gradscope.worker.data.tokens import MASK
from gradscope.worker.targets import suggestion

DROPOUT_ENDINGS = ("dropout", "dropout_prob", "pdrop")
"""How configs call their dropout rates: `attention_dropout`, `hidden_dropout_prob`, `resid_pdrop`."""

Built = TypeVar("Built")


def dropout_fields(config: Any) -> list[str]:
    """Return the config's dropout rates in use; a field that holds no number (`classifier_dropout = None`) is none."""
    return [
        name
        for name, value in config.to_dict().items()
        if name.endswith(DROPOUT_ENDINGS) and isinstance(value, int | float) and not isinstance(value, bool)
    ]


def make_config(
    config_class: Callable[..., Any],
    fields: Mapping[str, Any],
    settings: ModelSettings,
    options: Mapping[str, Any] | None = None,
    *,
    where: str = "model.options",
) -> Any:
    """Make a config of transformers with SDPA attention and no key-value cache.

    `settings.dropout` goes into every dropout rate the config has; the options come last and so win over it.

    Args:
        config_class: A config class of transformers.
        fields: The model's own sizes.
        settings: The preset's `[model]`.
        options: The overrides; `settings.options` where not given.
        where: The key of the overrides in the preset, for messages.

    Raises:
        GradscopeError: An option is no field of the config, or a value is not allowed.
    """
    overrides = settings.options if options is None else options
    plain = config_class(**fields)
    check_options(overrides, {*plain.to_dict(), "num_labels"}, where)
    rates = dict.fromkeys(dropout_fields(plain), settings.dropout)
    merged = {**fields, **rates, **overrides, "attn_implementation": "sdpa"}
    config = checked(lambda: config_class(**merged), where)
    if hasattr(config, "use_cache"):
        config.use_cache = False
    return config


def check_options(options: Mapping[str, Any], known: set[str], where: str) -> None:
    """Raise a `GradscopeError` with the nearest name for the first option that is not known."""
    for name in options:
        if name not in known:
            raise GradscopeError(f"{where}.{name}: no such option", suggestion(name, known))


def checked(build: Callable[[], Built], where: str) -> Built:
    """Call `build` and turn what transformers says about bad values into a `GradscopeError`."""
    try:
        return build()
    except (StrictDataclassError, TypeError, ValueError, ZeroDivisionError, KeyError) as error:
        detail = " ".join(str(error).split()) or type(error).__name__
        raise GradscopeError(f"{where}: transformers does not accept these values: {detail}") from error


def check_length(config: Any, length: int) -> None:
    """Raise a `GradscopeError` where rows of `length` tokens are longer than the model's positions."""
    limit = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    if isinstance(limit, int) and length > limit:
        raise GradscopeError(
            f"data.sequence_length is {length}, and the model has {limit} positions",
            f"set data.sequence_length to {limit} or less",
        )


def text_spec(task: Task, config: Any, length: int) -> DataSpec:
    """Return the rows that a text model needs: `length` tokens, which its positions must hold."""
    check_length(config, length)
    vocabulary: int = config.vocab_size
    return DataSpec(task=task, sequence_length=length, vocabulary=vocabulary, mask_token=min(MASK, vocabulary - 1))


def check_images(config: Any, merged: int = 1) -> None:
    """Raise a `GradscopeError` where a vision config does not fit square images of three channels.

    Args:
        config: Has `image_size`, `patch_size` and `num_channels`.
        merged: Patches along one side that become one token.
    """
    size, patch = config.image_size, config.patch_size
    if not (isinstance(size, int) and isinstance(patch, int) and size > 0 and patch > 0):
        raise GradscopeError(
            f"images of {size!r} in patches of {patch!r}: both must be one whole number, for square ones",
            "set data.image_size, and patch_size in model.options",
        )
    if config.num_channels != 3:
        raise GradscopeError(f"num_channels is {config.num_channels}, and data sets give 3", "leave num_channels out")
    multiple = patch * merged
    if size % multiple:
        below = max(multiple, size - size % multiple)
        raise GradscopeError(
            f"data.image_size is {size}, and the model needs a multiple of {multiple}",
            f"set data.image_size to {below} or {below + multiple}",
        )


def check_classes(config: Any) -> None:
    """Raise a `GradscopeError` where a classifier's config has no classes."""
    if config.num_labels < 1:
        raise GradscopeError(f"num_labels is {config.num_labels}", "set model.options.num_labels to at least 1")
