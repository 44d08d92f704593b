"""Contexts in which a model is examined and after which it is as it was: gradients aside, which are given up."""

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules.dropout import _DropoutNd


@contextmanager
def undisturbed(module: nn.Module, device: torch.device) -> Iterator[None]:
    """Free gradients, and afterwards restore buffers, training modes and random states.

    Arithmetic inside is exact and, where torch can, deterministic: no TF32, and no algorithm that sums in any order.
    """
    module.zero_grad(set_to_none=True)
    buffers = [(buffer, buffer.detach().clone()) for buffer in module.buffers()]
    modes = [(part, part.training) for part in module.modules()]
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=[device] if device.type == "cuda" else []))
        stack.callback(random.setstate, random.getstate())
        stack.callback(np.random.set_state, np.random.get_state())
        stack.enter_context(_exact_arithmetic())
        try:
            yield
        finally:
            module.zero_grad(set_to_none=True)
            with torch.no_grad():
                for buffer, before in buffers:
                    buffer.copy_(before)
            for part, training in modes:
                part.training = training


@contextmanager
def _exact_arithmetic() -> Iterator[None]:
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in _switches()]
    try:
        for owner, name, exact in _switches():
            setattr(owner, name, exact)
        # only asked for: an operation that has no deterministic form still runs
        torch.use_deterministic_algorithms(True, warn_only=True)
        yield
    finally:
        torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
        for owner, name, value in before:
            setattr(owner, name, value)


def _switches() -> list[tuple[Any, str, object]]:
    """Return where torch keeps the precision of float32 products, and the value that means exact."""
    backends = torch.backends
    if hasattr(backends.cuda.matmul, "fp32_precision"):
        # torch 2.9 and later; mixing it with the older switches is an error there
        kinds: list[tuple[Any, str]] = [
            (backends.cuda, "matmul"),
            (backends.cudnn, "conv"),
            (backends.cudnn, "rnn"),
            (backends.mkldnn, "matmul"),
            (backends.mkldnn, "conv"),
            (backends.mkldnn, "rnn"),
        ]
        return [(getattr(backend, kind), "fp32_precision", "ieee") for backend, kind in kinds]
    return [(backends.cuda.matmul, "allow_tf32", False), (backends.cudnn, "allow_tf32", False)]


def seed_everything(seed: int) -> None:
    """Give every generator that a model or a data set may draw from the same start."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


@contextmanager
def dropout_rate(module: nn.Module, rate: float) -> Iterator[int]:
    """Set every dropout of `module` to `rate`, and yield how many there are.

    Beside dropout modules these are rates that a module keeps as a plain number for functional dropout, such as
    `attention_dropout`: numeric attributes from 0 to below 1 with `dropout` in their name.
    """
    rates: list[tuple[nn.Module, str, object]] = []
    for part in module.modules():
        names = ["p"] if isinstance(part, _DropoutNd) else [name for name in vars(part) if "dropout" in name.lower()]
        for name in names:
            value = getattr(part, name)
            if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1:
                rates.append((part, name, value))
    try:
        for part, name, _ in rates:
            setattr(part, name, rate)
        yield len(rates)
    finally:
        for part, name, value in rates:
            setattr(part, name, value)
