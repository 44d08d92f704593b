"""Which optimizers the installed torch has is read from its source: a wrong name is found before anything starts."""

import subprocess
import sys
from pathlib import Path

import pytest

from gradscope.config.catalogue import TORCH_OPTIMIZERS
from gradscope.config.torch_optim import torch_optimizers

ASK = "import sys; from gradscope.config.torch_optim import torch_optimizers as t; print(*t(), 'torch' in sys.modules)"


def asked(folder: Path) -> list[str]:
    """Ask in a fresh interpreter that finds packages in `folder` first."""
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); {ASK}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.split()


def test_the_installed_ones_are_those_that_torch_has() -> None:
    torch = pytest.importorskip("torch")
    kinds = {name for name, kind in vars(torch.optim).items() if isinstance(kind, type) and name in torch.optim.__all__}
    assert set(torch_optimizers()) == kinds - {"Optimizer"}


def test_a_torch_is_read_and_not_run(tmp_path: Path) -> None:
    (tmp_path / "torch" / "optim").mkdir(parents=True)
    (tmp_path / "torch" / "__init__.py").write_text("raise SystemExit('it was run')")
    listed = '__all__ = ["Newest", "Adam", "Optimizer", "lr_scheduler"]'
    (tmp_path / "torch" / "optim" / "__init__.py").write_text(f"from nowhere import Adam\n{listed}\n")
    assert asked(tmp_path) == ["Adam", "Newest", "False"]


def test_without_a_list_to_read_the_catalogues_holds(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").touch()
    assert asked(tmp_path) == [*TORCH_OPTIMIZERS, "False"]
