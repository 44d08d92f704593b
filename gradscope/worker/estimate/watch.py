"""A dispatch mode that sees every storage come and go in an update on tensors without data, and stands in for values.

A block's moment is the number of the event, not a time. Kernels' own scratch memory is not seen: nothing runs.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from weakref import ref

import torch
from torch import Tensor, UntypedStorage
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from gradscope.errors import GradscopeError
from gradscope.worker.lifetimes import Change, PhaseRange
from gradscope.worker.memory import storages

aten = torch.ops.aten

MOST_READINGS = 100_000
"""Values an update may read before it is taken for a loop that waits for a value to change."""


@dataclass(slots=True)
class Block:
    """One storage's life, in event numbers."""

    size_bytes: int
    phase: str
    """In which it was born."""
    born: int
    died: int | None = None
    kind: str | None = None
    """What it was said to be by `mark`."""

    @property
    def category(self) -> str:
        """One of `CATEGORIES`."""
        return self.kind or ("activations" if self.phase in ("forward", "recompute") else "workspace")


@dataclass(slots=True)
class Recorded:
    """What was seen since `start`."""

    blocks: list[Block] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    ranges: list[PhaseRange] = field(default_factory=list)

    def alive_at_peak(self) -> list[Block]:
        """Return the blocks that live at the moment when most is held."""
        held = most = moment = 0
        for change in self.changes:
            held += change.size_bytes
            if held > most:
                most, moment = held, change.at_ns
        return [one for one in self.blocks if one.born <= moment and (one.died is None or one.died > moment)]


class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's modes are not typed
    """Enter inside a `FakeTensorMode`; `start` begins the record, `enter` names phases, `finish` ends it."""

    def __init__(self, *, rounding_bytes: int = 1) -> None:
        """Watch an update; the allocator rounds blocks up to a multiple of `rounding_bytes`."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.labels: int | None = None
        """Positions of a micro-batch that have a label: what a mask over them is taken to select."""
        self.attention: dict[str, None] = {}
        """Attention kernels called, in order."""
        self.assumptions: dict[str, None] = {}
        """What was made up about values."""
        self._recomputing = 0
        self._rounding = rounding_bytes
        self._moment = 0
        self._phase = "other"
        self._since = 0
        self._started = 0
        self._readings = 0
        self._living: dict[int, tuple[Block, object]] = {}
        self._record: Recorded | None = None
        self._zeros: set[int] = set()

    def start(self) -> None:
        """Forget what was seen; what lives already is not counted when it dies."""
        self._record = Recorded()
        self._since = self._started = self._moment

    def enter(self, phase: str) -> None:
        """Take note that a phase begins."""
        self._moment += 1
        if self._record is not None and self._moment > self._since:
            self._record.ranges.append(PhaseRange(self._phase, self._since, self._moment - 1))
        self._phase, self._since = phase, self._moment

    def finish(self) -> Recorded:
        """End the record and return it."""
        self.enter("other")
        record, self._record = self._record, None
        assert record is not None, "start comes first"
        return record

    def recompute(self, starts: bool) -> None:
        """Take note that a checkpointed block begins to run again in backward, or has ended."""
        self._recomputing += 1 if starts else -1

    def mark(self, tensors: Iterable[Tensor], kind: str) -> None:
        """Say what tensors that live now are; those that were made before are taken note of."""
        for tensor in tensors:
            for storage in storages(tensor):
                self._see_storage(storage)
                self._living[storage._cdata][0].kind = kind

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operator without data, and look at what it returns."""
        kwargs = kwargs or {}
        instead = _INSTEAD.get(func)
        out = func(*args, **kwargs) if instead is None else instead(self, func, args, kwargs)
        name = func._schema.name
        if "attention" in name and "backward" not in name:
            self.attention[name.removeprefix("aten::").removeprefix("_")] = None
        for one in tree_flatten(out)[0]:
            if isinstance(one, Tensor):
                for storage in storages(one):
                    self._see_storage(storage)
        return out

    def selected(self, mask: Tensor) -> int:
        """Return how many positions of a mask count as true: the labels where it fits them, else all of them."""
        if self.labels is not None and self.labels <= mask.numel():
            return self.labels
        self.assumptions["a mask is taken to select everything"] = None
        return mask.numel()

    def read(self, tensor: Tensor) -> float | bool:
        """Stand in for a value that the host reads: 1, and False where it is a condition."""
        self._readings += 1
        if self._readings > MOST_READINGS:
            raise GradscopeError(
                "the update waits for a value that an estimate does not have",
                "run it: this model or optimizer decides by values",
            )
        if tensor.dtype == torch.bool:
            self.assumptions["conditions on tensors' values are taken as false"] = None
            return False
        return 0 if tensor.untyped_storage()._cdata in self._zeros else 1

    def zero(self, tensor: Tensor) -> None:
        """Let a tensor read as 0."""
        self._zeros.add(tensor.untyped_storage()._cdata)

    def _see_storage(self, storage: UntypedStorage) -> None:
        key = storage._cdata
        size = -(-storage.nbytes() // self._rounding) * self._rounding
        known = self._living.get(key)
        if known is not None:
            if known[0].size_bytes == size:
                return
            self._die(key, None)  # resized: a new block
        self._moment += 1
        block = Block(size, "recompute" if self._recomputing else self._phase, self._moment)
        self._living[key] = (block, ref(storage, partial(self._die, key)))
        if self._record is not None:
            self._record.blocks.append(block)
            if size:
                self._record.changes.append(Change(self._moment, size, id(block)))

    def _die(self, key: int, _storage: object) -> None:
        self._moment += 1
        self._zeros.discard(key)
        block, _ = self._living.pop(key)
        block.died = self._moment
        if self._record is not None and block.size_bytes and block.born > self._started:
            self._record.changes.append(Change(self._moment, -block.size_bytes, id(block)))


def _value(watch: Watch, func: Any, args: Any, kwargs: Any) -> Any:
    return watch.read(args[0])


def _unequal(watch: Watch, func: Any, args: Any, kwargs: Any) -> bool:
    watch.assumptions["conditions on tensors' values are taken as false"] = None
    return False


def _nonzero(watch: Watch, func: Any, args: Any, kwargs: Any) -> Tensor:
    mask: Tensor = args[0]
    return mask.new_empty((watch.selected(mask), mask.dim()), dtype=torch.int64)


def _index(watch: Watch, func: Any, args: Any, kwargs: Any) -> Any:
    """Index by masks as torch does: by the positions that they select."""
    source, indices = args
    places: list[Tensor | None] = []
    for index in indices:
        if index is None or index.dtype not in (torch.bool, torch.uint8):
            places.append(index)
            continue
        positions = index.new_empty((watch.selected(index),), dtype=torch.int64)
        places.extend([positions] * index.dim())
    return func(source, places, **kwargs)


def _masked_select(watch: Watch, func: Any, args: Any, kwargs: Any) -> Tensor:
    source: Tensor = args[0]
    return source.new_empty((watch.selected(args[1]),))


def _unscale(watch: Watch, func: Any, args: Any, kwargs: Any) -> Any:
    """A gradient scaler's look for infinities finds none, so that the optimizer takes its step."""
    watch.zero(args[1])
    return func(*args, **kwargs)


_INSTEAD: dict[Any, Callable[[Watch, Any, Any, Any], Any]] = {
    aten._local_scalar_dense.default: _value,
    aten.equal.default: _unequal,
    aten.nonzero.default: _nonzero,
    aten.index.Tensor: _index,
    aten.masked_select.default: _masked_select,
    aten._amp_foreach_non_finite_check_and_unscale_.default: _unscale,
}
"""Operators whose result depends on values."""
