"""Which parts of a module are checkpointed, and how they are taken hold of and let go again.

transformers' models know their own layers: they are switched on by their own method. Any other module is cut at the
children of its `nn.ModuleList` and of its `nn.Sequential`, and where it has neither, at its direct children.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, ref

import torch
from torch import nn
from torch.utils._pytree import tree_flatten, tree_unflatten
from torch.utils.checkpoint import checkpoint

ENABLERS = ("activation_checkpointing_enable", "gradient_checkpointing_enable")
"""transformers' method by age, newest first; 5.24 renamed it."""

SWITCHES = ("gradient_checkpointing", "_gradient_checkpointing_func")
"""Attributes by which those methods switch a layer."""

INPUT_HOOKS = ("_require_grads_hooks", "_require_grads_hook")
"""Attributes that hold what those methods hook to a model's embeddings."""

RecomputeContext = Callable[[], AbstractContextManager[None]]

_MISSING = object()


@dataclass(frozen=True, slots=True)
class _Changed:
    """An attribute of a module as it was in the module's own `__dict__`."""

    module: ReferenceType[nn.Module]
    attribute: str
    before: object


_changed: WeakKeyDictionary[nn.Module, list[_Changed]] = WeakKeyDictionary()
"""What `checkpoint_blocks` changed below a module. Weak, so that a module can go while it is checkpointed."""


def checkpoint_blocks(module: nn.Module, context: RecomputeContext) -> int:
    """Make the blocks of `module` recompute their activations in backward.

    They do so only in training mode and with gradients enabled, as transformers' own layers do.

    Args:
        module: Changed in place. Blocks taken hold of before are let go first.
        context: Makes the context in which one block is recomputed.

    Returns:
        How many blocks were taken hold of. Whether they are recomputed shows only when they run.
    """
    restore_blocks(module)
    _changed[module] = []
    run = _checkpointed_call(context)
    models = list(_checkpointable_models(module))
    taken = sum(_switch_on(module, model, run) for model in models)
    if taken:
        return taken
    blocks = list(find_blocks(module))
    for block in blocks:
        _remember(module, block, "forward")
        block.__dict__["forward"] = _checkpointed_forward(block, run)
    return len(blocks)


def restore_blocks(module: nn.Module) -> None:
    """Undo `checkpoint_blocks`: every attribute that it changed is as it was."""
    for change in reversed(_changed.pop(module, [])):
        owner = change.module()
        if owner is not None:
            _put(owner, change.attribute, change.before)


def find_blocks(module: nn.Module) -> Iterator[nn.Module]:
    """Yield the outermost blocks of a module that does not know its own: each once, none inside another."""
    found = list(_unique(_listed_blocks(module)))
    yield from found or _unique(child for child in module.children() if _can_be_block(child))


def _listed_blocks(module: nn.Module) -> Iterator[nn.Module]:
    """Yield the children of lists and sequences, where they hold parameters, without looking into them."""
    children = list(module.children())
    if isinstance(module, nn.ModuleList):
        blocks = [child for child in children if _can_be_block(child)]
    elif isinstance(module, nn.Sequential):
        blocks = [child for child in children if _can_be_block(child)]
        blocks = blocks if len(blocks) >= 2 else []
    else:
        blocks = []
    yield from blocks
    taken = {id(block) for block in blocks}
    for child in children:
        if id(child) not in taken:
            yield from _listed_blocks(child)


def _can_be_block(module: nn.Module) -> bool:
    """Whether the module has a forward of its own (containers have none) and something to train."""
    return type(module).forward is not nn.Module.forward and next(module.parameters(), None) is not None


def _unique(modules: Iterator[nn.Module]) -> Iterator[nn.Module]:
    seen: set[int] = set()
    for module in modules:
        if id(module) not in seen:
            seen.add(id(module))
            yield module


def _checkpointable_models(module: nn.Module) -> Iterator[nn.Module]:
    """Yield the outermost models inside `module` that can checkpoint their own layers."""
    supported = getattr(module, "supports_gradient_checkpointing", True)
    if supported and any(callable(getattr(module, name, None)) for name in ENABLERS):
        yield module
        return
    for child in module.children():
        yield from _checkpointable_models(child)


def _switch_on(root: nn.Module, model: nn.Module, run: Callable[..., Any]) -> int:
    """Switch on one transformers model; return how many of its layers are switched on afterwards."""
    for part in model.modules():
        if hasattr(part, "gradient_checkpointing"):
            for attribute in SWITCHES:
                _remember(root, part, attribute)
    enable = next(getattr(model, name) for name in ENABLERS if callable(getattr(model, name, None)))
    hooks = {attribute: model.__dict__.get(attribute, _MISSING) for attribute in INPUT_HOOKS}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            enable({"use_reentrant": False})
    except (ValueError, NotImplementedError):
        return 0
    _drop_input_hooks(model, hooks)
    switched = [part for part in model.modules() if getattr(part, "gradient_checkpointing", False)]
    for part in switched:
        part.__dict__["_gradient_checkpointing_func"] = run
    return sum(1 for part in switched if not any(inner in switched for inner in _below(part)))


def _below(module: nn.Module) -> Iterator[nn.Module]:
    return (inner for inner in module.modules() if inner is not module)


def _drop_input_hooks(model: nn.Module, before: dict[str, object]) -> None:
    """Take back the hooks by which transformers makes a model's embedded inputs require gradients.

    Reentrant checkpointing needs them. Ours is not reentrant, and below frozen embeddings they would cost gradients
    that the plain strategy does not compute.
    """
    kept = before[INPUT_HOOKS[0]]
    for hook in model.__dict__.get(INPUT_HOOKS[0]) or ():
        if not isinstance(kept, list) or hook not in kept:
            hook.remove()
    for attribute, value in before.items():
        _put(model, attribute, value)


def _checkpointed_call(context: RecomputeContext) -> Callable[..., Any]:
    """Return a function that calls another one under checkpointing."""

    def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext(), context()

    def run(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            # a compiled graph recomputes inside itself, where no context of ours can be entered
            return checkpoint(function, *args, use_reentrant=False, **kwargs)
        if isinstance(function, partial):
            # transformers binds keyword arguments beforehand
            bound: partial[Any] = function
            function, args, kwargs = bound.func, (*bound.args, *args), {**bound.keywords, **kwargs}
        leaves, structure = tree_flatten((args, kwargs), is_leaf=_is_leaf)

        def call(*leaves: Any) -> Any:
            arguments, keywords = tree_unflatten(leaves, structure)
            return function(*arguments, **keywords)

        return checkpoint(call, *leaves, use_reentrant=False, context_fn=contexts)

    return run


def _is_leaf(value: Any) -> bool:
    """Whether a block's argument is handed on whole; tensors in plain containers are taken out of them.

    `checkpoint` saves the tensors among its positional arguments as autograd's own, so that hooks see them and a change
    in place is found. It would keep those in keyword arguments unseen.
    """
    return type(value) not in (tuple, list, dict)


def _checkpointed_forward(block: nn.Module, run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a forward for `block` that checkpoints its present one."""
    forward = block.forward

    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        if block.training and torch.is_grad_enabled():
            return run(forward, *args, **kwargs)
        return forward(*args, **kwargs)

    return checkpointed


def _remember(root: nn.Module, module: nn.Module, attribute: str) -> None:
    before = module.__dict__.get(attribute, _MISSING)
    _changed[root].append(_Changed(ref(module), attribute, before))


def _put(module: nn.Module, attribute: str, value: object) -> None:
    """Give the module's own `__dict__` a value back, or take the entry out if there was none."""
    if value is _MISSING:
        module.__dict__.pop(attribute, None)
    else:
        module.__dict__[attribute] = value
