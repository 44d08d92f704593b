"""`text`: English that ships with Python, as bytes. Each row is a window at a random place.

It is the language reference that `help()` shows (pydoc_data.topics, about 460 kB). Where a slim build of Python
leaves that out, it is the docstrings of the built-in types and functions. The text differs between Python versions,
and so do losses.
"""

import builtins
from functools import partial
from importlib import import_module

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Dataset

from gradscope.config.schema import DataSettings
from gradscope.worker.contract import Batch, DataSpec
from gradscope.worker.data.rows import MadeRows, check_data_options, require_task
from gradscope.worker.data.tokens import require_vocabulary, text_row

Bytes = NDArray[np.uint8]

TASKS = ("masked-lm", "causal-lm")


def build(settings: DataSettings, spec: DataSpec, seed: int) -> Dataset[Batch]:
    """Return windows of English for the task of `spec`."""
    require_task("text", spec, TASKS)
    check_data_options(settings)
    require_vocabulary(spec)
    content = np.frombuffer(english().encode(), dtype=np.uint8)
    return MadeRows(partial(window_row, content, spec), seed)


def window_row(content: Bytes, spec: DataSpec, rng: np.random.Generator) -> Batch:
    """Return a row from a random place of `content`; shorter than the row only where all of the text is."""
    start = int(rng.integers(max(1, content.size - spec.sequence_length + 1)))
    return text_row(content[start : start + spec.sequence_length].astype(np.int64), spec, rng)


def english() -> str:
    """Return all of the text."""
    try:
        topics: dict[str, str] = import_module("pydoc_data.topics").topics
    except ImportError:
        return docstrings()
    return "\n\n".join(topics[name] for name in sorted(topics))


def docstrings() -> str:
    """Return the docstrings of the built-in types, their methods and the built-in functions."""
    things = [value for _, value in sorted(vars(builtins).items())]
    types = [thing for thing in things if isinstance(thing, type)]
    members = [member for kind in types for _, member in sorted(vars(kind).items())]
    texts = [text for thing in (*things, *members) if isinstance(text := getattr(thing, "__doc__", None), str)]
    return "\n\n".join(dict.fromkeys(texts))
