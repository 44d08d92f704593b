"""The optimizer classes of the installed torch, read from its source: importing it takes seconds."""

import ast
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from gradscope.config.catalogue import TORCH_OPTIMIZERS

BASE = "Optimizer"
"""What torch.optim lists beside the optimizers, with a capital letter like theirs."""


@cache
def torch_optimizers() -> tuple[str, ...]:
    """Return their names; those of the version that the catalogue knows where there is no torch to read."""
    return tuple(sorted(_listed(), key=str.lower)) or TORCH_OPTIMIZERS


def _listed() -> set[str]:
    try:
        spec = find_spec("torch")  # finds the package of that name, and does not run it
        folders = [] if spec is None else list(spec.submodule_search_locations or ())
        tree = ast.parse(Path(folders[0], "optim", "__init__.py").read_bytes()) if folders else ast.Module([], [])
    except (OSError, ValueError, SyntaxError, ImportError):  # an installation that is broken: the worker tells it
        return set()
    return {name for node in tree.body for name in _public(node) if name[:1].isupper() and name != BASE}


def _public(node: ast.stmt) -> Iterator[str]:
    """Yield the names in `__all__`."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.List | ast.Tuple):
        return
    if any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets):
        for item in node.value.elts:
            if isinstance(item, ast.Constant) and isinstance(item.value, str):
                yield item.value
