"""From an optimizer's class and a preset's options to an optimizer, or to a message that names the wrong option."""

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
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
    group: Callable[[Sequence[nn.Parameter]], Sequence[Any]] = list,
) -> torch.optim.Optimizer:
    """Make an optimizer of class `kind`; a learning rate that the preset does not give is the class's own.

    It is made for one parameter of four elements first, so that a wrong option is found before memory is taken.

    Args:
        kind: The class.
        parameters: What it updates, at least one.
        settings: `[optimizer]` of the preset.
        hidden: Options of the class that a preset cannot give.
        group: Makes of parameters what the class takes as its first argument.

    Raises:
        GradscopeError: An option, a value, or the model's parameters do not fit the class.
    """
    options = accepted_options(kind, hidden)
    given = _given(kind, settings, options)
    _check_values(kind, given, options)
    first = parameters[0]

    def attempt(arguments: Mapping[str, Any]) -> str | None:
        """Make the optimizer for a sample and say why that failed; `None` if it did not."""
        sample = nn.Parameter(torch.zeros(2, 2, dtype=first.dtype, device=first.device))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the real one says them
            try:
                kind(group([sample]), **arguments)
            except Exception as error:  # packages have error types of their own; the caller reports whatever it is
                return str(error) or type(error).__name__
        return None

    problem = attempt(given)
    if problem is not None:
        raise _refusal(kind, problem, given, options, attempt)
    try:
        return kind(group(parameters), **given)
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


def _refusal(
    kind: OptimizerClass,
    problem: str,
    given: Mapping[str, Any],
    options: Mapping[str, Any],
    attempt: Callable[[Mapping[str, Any]], str | None],
) -> GradscopeError:
    """Say which options are to blame: those without which it works; all of them if it works with the defaults alone."""
    culprits = [name for name in given if attempt({n: v for n, v in given.items() if n != name}) is None]
    if not culprits and attempt({name: given[name] for name in given if options[name] is NO_DEFAULT}) is not None:
        return GradscopeError(
            f"{_title(kind)} cannot be used here: {visible(problem)}", "choose another optimizer.name"
        )
    keys = " and ".join(f"{_key(name)} = {shown(given[name])}" for name in culprits or given)
    return GradscopeError(f"{_title(kind)} does not take {keys}: {visible(problem)}", _takes(kind, options))


def _title(kind: OptimizerClass) -> str:
    return f"{kind.__module__.partition('.')[0]}'s {kind.__name__}" if kind.__module__[:9] != "gradscope" else "cgd"


def _key(name: str) -> str:
    return "optimizer.lr" if name == "lr" else f"optimizer.options.{visible(name)}"


def _takes(kind: OptimizerClass, options: Mapping[str, Any]) -> str:
    return f"{_title(kind)} takes {', '.join(sorted(options)) or 'no options'}"
