"""`py:` models: found, called and believed only as far as they can be; their mistakes are told as theirs."""

import re
import subprocess
import sys
import textwrap

import pytest
import torch

from gradscope.config.schema import DataSettings, ModelSettings
from gradscope.errors import ExitCode, GradscopeError
from gradscope.worker.contract import DataSpec
from gradscope.worker.models import build_model

MODULE = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self, width=4, answer="mean"):
            super().__init__()
            self.layer = nn.Linear(3, width)
            self.answer = answer

        def forward(self, x, y=None):
            losses = self.layer(x).pow(2).mean(dim=1)
            if self.answer == "mean":
                return losses.mean()
            if self.answer == "pair":
                return losses.sum(), torch.tensor(len(x))
            if self.answer == "wrong pair":
                return losses.sum(), 99
            if self.answer == "object":
                class Output:
                    loss = losses.mean()
                return Output()
            if self.answer == "dict":
                return {"loss": losses.mean(), "logits": None}
            return losses if self.answer == "vector" else "none"

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return 10

        def __getitem__(self, index):
            return {"x": torch.full((3,), float(index))}

    def make(width=4, answer="mean"):
        return Net(width, answer), Rows()

    class Kept(Rows):
        def __init__(self):
            self.rows = torch.rand(10, 3)

        def __getitem__(self, index):
            return {"x": self.rows[index]}

    def keeping():
        return Net(), Kept()

    def bare(width=4):
        return Net(width)

    def told():
        net = Net()
        net.gradscope_data = {"task": "image-class", "classes": 5, "image_size": 32}
        return net

    def misspelt():
        net = Net()
        net.gradscope_data = {"task": "image-class", "clases": 5}
        return net

    def wrong_type():
        net = Net()
        net.gradscope_data = {"task": "image-class", "classes": "many"}
        return net

    def wrong_task():
        net = Net()
        net.gradscope_data = {"task": "image-clas"}
        return net

    def counting():
        net = Net(answer="pair")
        net.gradscope_count = lambda batch: len(batch["x"])
        return net, Rows()

    def raising():
        raise LookupError("no weights here")

    def leaving():
        raise SystemExit(7)

    def out_of_memory():
        raise torch.OutOfMemoryError("CUDA out of memory")

    def nothing():
        return None

    def frozen():
        return nn.ReLU(), Rows()

    def no_rows():
        return Net(), 5

    number = 5
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    (tmp_path / "mine.py").write_text(textwrap.dedent(MODULE))
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.split(".")[0] in {"mine", "broken", "needy", "package", "part"}:
            del sys.modules[name]


def build(name, data=None, **settings):
    return build_model(ModelSettings(name=name, **settings), data or DataSettings())


def loss(model, rows=4):
    return model.loss(model.module, {"x": torch.arange(rows * 3.0).reshape(rows, 3)})


def test_rows_that_a_factory_makes_stay_on_the_host(folder):
    with torch.device("meta"):  # as a card would be
        model = build("py:mine:keeping")
    assert model.dataset[0]["x"].device.type == "cpu"


def test_a_module_in_the_working_directory_is_found(folder):
    model = build("py:mine:make", options={"width": 7})
    assert model.module.layer.out_features == 7
    assert len(model.dataset) == 10
    assert model.spec is None
    assert not model.counts_tokens


def test_a_path_to_a_file_is_found_with_its_neighbours(folder):
    (folder / "part").mkdir()
    (folder / "part" / "needy.py").write_text("import broken\nfrom mine import make\n")
    (folder / "part" / "broken.py").write_text("")
    sys.path.insert(0, str(folder))
    assert len(build("py:part/needy.py:make").dataset) == 10


@pytest.mark.parametrize("answer", ["mean", "pair", "object", "dict"])
def test_every_kind_of_loss_becomes_the_sum_over_rows(folder, answer):
    model = build("py:mine:make", options={"answer": answer})
    result = loss(model)
    x = torch.arange(12.0).reshape(4, 3)
    assert torch.allclose(result, model.module.layer(x).pow(2).mean(dim=1).sum())
    assert model.count({"x": x}) == 4
    result.backward()


def test_a_count_of_the_modules_own_is_used(folder):
    model = build("py:mine:counting")
    assert model.counts_tokens
    assert model.count({"x": torch.zeros(4, 3)}) == 4


def test_a_returned_count_is_compared_once(folder):
    model = build("py:mine:counting")
    counted = []
    model.loss._count = lambda batch: counted.append(batch) or 4  # on a device it would wait for it each time
    assert loss(model).dim() == loss(model).dim() == 0
    assert len(counted) == 1


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("vector", r"forward returned a tensor of shape \[4\]"),
        ("none", "forward returned str"),
        ("wrong pair", "count of 99, and gradscope counted 4"),
    ],
)
def test_what_is_no_loss_is_told(folder, answer, message):
    with pytest.raises(GradscopeError, match=message):
        loss(build("py:mine:make", options={"answer": answer}))


def test_without_a_data_set_the_module_says_what_it_needs(folder):
    assert build("py:mine:told").spec == DataSpec(task="image-class", classes=5, image_size=32, sequence_length=128)


@pytest.mark.parametrize(
    ("factory", "message", "hint"),
    [
        ("bare", "no attribute gradscope_data", "return .module, dataset."),
        ("misspelt", "unknown key 'clases'", "classes"),
        ("wrong_type", "Expected `int`", "whole numbers"),
        ("wrong_task", "unknown task 'image-clas'", "image-class"),
        ("nothing", "returned NoneType", "must return a torch.nn.Module"),
        ("frozen", "without trainable parameters", "must return"),
        ("no_rows", "returned int as its data set", "must return"),
        ("mak", "mine has no 'mak'", "did you mean make"),
        ("number", "is int, no factory", "function or a class"),
    ],
)
def test_a_factory_that_does_not_fit_is_told_with_a_remedy(folder, factory, message, hint):
    with pytest.raises(GradscopeError, match=message) as caught:
        build(f"py:mine:{factory}")
    assert re.search(hint, caught.value.hint)


@pytest.mark.parametrize("name", ["py:mine", "py:", "py::make", "py:mine:"])
def test_a_name_of_another_form_is_told(folder, name):
    with pytest.raises(GradscopeError, match="does not name a factory"):
        build(name)


def test_options_that_the_factory_does_not_take_are_told_with_its_signature(folder):
    with pytest.raises(GradscopeError, match="unexpected keyword argument 'depth'") as caught:
        build("py:mine:make", options={"depth": 3})
    assert "(width=4, answer='mean')" in caught.value.hint


@pytest.mark.parametrize(
    ("factory", "message", "exit_code"),
    [
        ("raising", "py:mine:raising raised LookupError: no weights here", ExitCode.FAILED),
        ("leaving", "raised SystemExit: 7", ExitCode.FAILED),
        ("out_of_memory", "raised OutOfMemoryError: CUDA out of memory", ExitCode.OUT_OF_MEMORY),
    ],
)
def test_what_a_factory_raises_is_named_and_its_traceback_shown_whole(folder, capsys, factory, message, exit_code):
    with pytest.raises(GradscopeError, match=message) as caught:
        build(f"py:mine:{factory}")
    assert caught.value.exit_code == exit_code
    assert "mine.py" in capsys.readouterr().err


def test_a_module_that_does_not_exist_is_bad_usage(folder):
    with pytest.raises(GradscopeError, match="no module 'mein'") as caught:
        build("py:mein:make")
    assert caught.value.exit_code == ExitCode.USAGE
    with pytest.raises(GradscopeError, match=r"no file .*mein.py"):
        build("py:mein.py:make")


def test_a_module_that_cannot_import_its_own_needs_is_its_own_failure(folder, capsys):
    (folder / "needy.py").write_text("import no_such_package_at_all\n")
    for name in ("py:needy:make", "py:needy.py:make"):
        with pytest.raises(
            GradscopeError, match="raised ModuleNotFoundError: No module named 'no_such_package"
        ) as caught:
            build(name)
        assert caught.value.exit_code == ExitCode.FAILED
    assert "needy.py" in capsys.readouterr().err


def test_a_model_of_ones_own_pays_for_no_import_of_transformers(folder):
    script = (
        "import sys; from gradscope.worker.models import build_model;"
        "from gradscope.worker.data.loader import BatchStream;"
        "from gradscope.config.schema import *; import torch;"
        "m = build_model(ModelSettings(name='py:mine:make'), DataSettings());"
        "s = BatchStream(m.dataset, DataSettings(), [2], device=torch.device('cpu'), seed=0);"
        "m.loss(m.module, s.next(2)).backward(); assert 'transformers' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=folder)


@pytest.mark.parametrize("name", ["vitt", "hub:x", "py"])
def test_a_model_that_does_not_exist_is_told(name):
    with pytest.raises(GradscopeError, match=f"there is no model '{name}'"):
        build(name)
