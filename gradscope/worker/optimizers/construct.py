"""From an optimizer's class and a preset's options to an optimizer, or to a message that names the wrong option."""

import inspect
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from gradscope.config.problem import did_you_mean, shown
from gradscope.config.schema import OptimizerSettings
from gradscope.core.text import visible
from gradscope.errors import GradscopeError

OptimizerClass = type[torch.optim.Optimizer]

NO_DEFAULT = inspect.Parameter.empty


def construct(
    kind: OptimizerClass,
    parameters: Sequence[nn.Parameter],
    settings: OptimizerSettings,
    *,
    hidden: frozenset[str] = frozenset(),
) -> torch.optim.Optimizer:
    """Make an optimizer of class `kind`; a learning rate that the preset does not give is the class's own.

    It is made for one parameter of four elements first, so that a wrong option is found before memory is taken.

    Args:
        kind: The class.
        parameters: What it updates, at least one.
        settings: `[optimizer]` of the preset.
        hidden: Options of the class that a preset cannot give.

    Raises:
        GradscopeError: An option, a value, or the model's parameters do not fit the class.
    """
    options = accepted_options(kind, hidden)
    given = _given(kind, settings, options)
    _check_values(kind, given, options)
    first = parameters[0]
    sample = torch.zeros(2, 2, dtype=first.dtype, device=first.device)
    problem = _attempt(kind, sample, given)
    if problem is not None:
        culprits = [name for name in given if _attempt(kind, sample, _without(given, name)) is None] or list(given)
        keys = " and ".join(f"{_key(name)} = {shown(given[name])}" for name in culprits) or "its defaults"
        raise GradscopeError(f"{_title(kind)} does not take {keys}: {visible(problem)}", _takes(kind, options))
    try:
        return kind(parameters, **given)
    except (
        TypeError,
        ValueError,
    ) as error:  # what classes raise where the options are right and the parameters are not
        raise GradscopeError(
            f"{_title(kind)} cannot train this model: {visible(str(error))}", "choose another optimizer.name"
        ) from error


def accepted_options(kind: OptimizerClass, hidden: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Return the class's keyword arguments, `lr` among them, with their defaults (`NO_DEFAULT` for none)."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    listed = [parameter for parameter in inspect.signature(kind).parameters.values() if parameter.kind in named]
    return {parameter.name: parameter.default for parameter in listed[1:] if parameter.name not in hidden}


def _given(kind: OptimizerClass, settings: OptimizerSettings, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that the preset gives; TOML's lists become the tuples that classes expect."""
    if "lr" in settings.options:
        raise GradscopeError("optimizer.options.lr: the learning rate has a key of its own", "set optimizer.lr")
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in settings.options.items()}
    for name in given:
        if name not in options:
            near = did_you_mean(name, options)
            hint = f"{near} {_takes(kind, options)}" if near else _takes(kind, options)
            raise GradscopeError(f"{_key(name)}: {_title(kind)} has no such option", hint)
    if settings.lr is not None:
        if "lr" not in options:
            raise GradscopeError(f"optimizer.lr: {_title(kind)} has no learning rate", "leave optimizer.lr out")
        given["lr"] = settings.lr
    missing = [name for name, default in options.items() if default is NO_DEFAULT and name not in given]
    if missing:
        raise GradscopeError(
            f"{_title(kind)} needs {', '.join(_key(name) for name in missing)}",
            "an option that is itself an object, such as a model, cannot be given in a preset",
        )
    return given


def _check_values(kind: OptimizerClass, given: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Refuse values of another type than the default's: some classes take `foreach = "no"` for true."""
    for name, value in given.items():
        wanted = _wanted(value, options[name])
        if wanted:
            raise GradscopeError(
                f"{_key(name)}: found {shown(list(value) if isinstance(value, tuple) else value)}, "
                f"{_title(kind)} takes {wanted}",
                _takes(kind, options),
            )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _wanted(value: Any, default: Any) -> str | None:
    """Say what a value should have been, going by the default; `None` if it may pass."""
    if isinstance(default, bool):
        return None if isinstance(value, bool) else "true or false"
    if _is_number(default):
        return None if _is_number(value) else "a number"
    if isinstance(default, str):
        return None if isinstance(value, str) else "text"
    if isinstance(default, tuple) and not (isinstance(value, tuple) and len(value) == len(default)):
        return f"a list of {len(default)} values"
    return None


def _attempt(kind: OptimizerClass, sample: torch.Tensor, given: Mapping[str, Any]) -> str | None:
    """Make the optimizer for a sample and say why that failed; `None` if it did not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the real one says them
        try:
            kind([nn.Parameter(sample.clone())], **given)
        except Exception as error:  # noqa: BLE001, RUF100  # packages have error types of their own; the caller reports it
            return str(error) or type(error).__name__
    return None


def _without(given: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {other: value for other, value in given.items() if other != name}


def _title(kind: OptimizerClass) -> str:
    return f"{kind.__module__.partition('.')[0]}'s {kind.__name__}" if kind.__module__[:9] != "gradscope" else "cgd"


def _key(name: str) -> str:
    return "optimizer.lr" if name == "lr" else f"optimizer.options.{visible(name)}"


def _takes(kind: OptimizerClass, options: Mapping[str, Any]) -> str:
    return f"{_title(kind)} takes {', '.join(sorted(options)) or 'no options'}"
