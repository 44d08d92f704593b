"""Memory by category, exact and by unique storage: what is shared or viewed twice is counted once."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from types import TracebackType
from typing import Any, Self
from weakref import ReferenceType, ref

import torch
from torch import Tensor, UntypedStorage, nn

from gradscope.worker.contract import Batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Categories:
    """Bytes that are held between two updates, and one micro-batch."""

    parameters_bytes: int
    buffers_bytes: int
    """Without storages that are parameters too."""
    gradients_bytes: int
    optimizer_state_bytes: int
    inputs_bytes: int


def storages(tensor: Tensor) -> Iterator[UntypedStorage]:
    """Yield the storages that hold a tensor's data: several for a sparse tensor and for a wrapping subclass."""
    if hasattr(tensor, "__tensor_flatten__"):
        names, _ = tensor.__tensor_flatten__()
        parts = [getattr(tensor, name) for name in names]
    elif tensor.layout == torch.sparse_coo:
        parts = [tensor._indices(), tensor._values()]
    elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        parts = [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    elif tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        parts = [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    elif tensor.layout == torch.strided:
        yield tensor.untyped_storage()
        return
    else:
        # an opaque layout (mkldnn's) has no storage that could be asked for its size
        return
    for part in parts:
        yield from storages(part)


def storage_sizes(tensors: Iterable[Tensor]) -> dict[int, int]:
    """Return the bytes of each storage under its identity, which is valid for as long as the storage lives."""
    return {storage._cdata: storage.nbytes() for tensor in tensors for storage in storages(tensor)}


def unique_bytes(tensors: Iterable[Tensor], exclude: Iterable[Tensor] = ()) -> int:
    """Return the bytes of all storages behind `tensors`, each counted once, without those behind `exclude`."""
    held = storage_sizes(tensors)
    for identity in storage_sizes(exclude):
        held.pop(identity, None)
    return sum(held.values())


def gradients(parameters: Iterable[nn.Parameter]) -> list[Tensor]:
    """Return the gradients that exist."""
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """Return the tensors an optimizer keeps between steps, without its parameters and their gradients.

    Beside `state` it may keep tensors in `param_groups` (a learning rate), in attributes of its own, or in an
    optimizer that it wraps; all of them are looked through, down lists, mappings and dataclasses.
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    known = storage_sizes([*parameters, *gradients(parameters)])
    found = {id(tensor): tensor for tensor in _tensors_in(vars(optimizer), set())}
    return [tensor for tensor in found.values() if not all(one._cdata in known for one in storages(tensor))]


def _tensors_in(value: Any, seen: set[int]) -> Iterator[Tensor]:
    """Yield the tensors in a nest of containers; keys of a mapping (an optimizer's parameters) are not values."""
    if isinstance(value, Tensor):
        yield value
        return
    inner: Iterable[Any]
    if isinstance(value, Mapping):
        inner = value.values()
    elif isinstance(value, list | tuple | set | frozenset) or type(value).__name__ == "deque":
        inner = value
    elif isinstance(value, torch.optim.Optimizer):
        inner = vars(value).values()
    elif is_dataclass(value) and not isinstance(value, type):
        inner = [getattr(value, field.name, None) for field in fields(value)]
    else:
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    for one in list(inner):
        yield from _tensors_in(one, seen)


def categories(module: nn.Module, optimizer: torch.optim.Optimizer | None, inputs: Batch) -> Categories:
    """Measure what is held now: best between an optimizer's step and the next update's `zero_grad`."""
    parameters = list(module.parameters())
    return Categories(
        parameters_bytes=unique_bytes(parameters),
        buffers_bytes=unique_bytes(module.buffers(), exclude=parameters),
        gradients_bytes=unique_bytes(gradients(parameters)),
        optimizer_state_bytes=0 if optimizer is None else unique_bytes(optimizer_tensors(optimizer)),
        inputs_bytes=unique_bytes(inputs.values()),
    )


class SavedActivations:
    """Counts what one forward leaves for backward: a context around that forward, made anew for each.

    `bytes` is known once the context has been left. A storage counts if autograd still holds it then: what a
    checkpointed block saved and dropped inside the forward does not. Recomputed activations, which are born in
    backward, cannot be seen here, nor can tensors that a custom autograd function keeps as plain attributes.

    Nothing is kept alive: of each saved tensor the context holds a weak reference, and autograd holds the tensor
    itself.
    """

    def __init__(self, exclude: Iterable[Tensor] = ()) -> None:
        """Leave out the storages of `exclude`: parameters, buffers and the micro-batch."""
        self.bytes: int | None = None
        """Bytes of unique storages saved for backward; `None` until the forward has ended."""
        self._excluded = frozenset(storage_sizes(exclude))
        self._saved: list[ReferenceType[Tensor]] = []
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, _unpack)

    def _pack(self, tensor: Tensor) -> Tensor:
        # an output packed as itself would hold its own node, and both would never be freed
        alias = tensor.detach()
        self._saved.append(ref(alias))
        return alias

    def __enter__(self) -> Self:
        self._hooks.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hooks.__exit__(kind, error, trace)
        alive = [tensor for tensor in (reference() for reference in self._saved) if tensor is not None]
        sizes = storage_sizes(alive)
        self.bytes = sum(size for identity, size in sizes.items() if identity not in self._excluded)
        self._saved.clear()


def _unpack(tensor: Tensor) -> Tensor:
    return tensor
