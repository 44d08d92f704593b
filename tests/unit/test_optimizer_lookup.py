"""An optimizer is found by name, gets the preset's options, and says which of them is wrong."""

import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gradscope.config.catalogue import OPTIMIZERS
from gradscope.config.schema import OptimizerSettings
from gradscope.errors import ExitCode, GradscopeError
from gradscope.worker.optimizers import build_optimizer, needs_closure
from gradscope.worker.optimizers.cgd import CGD
from gradscope.worker.optimizers.construct import construct
from gradscope.worker.optimizers.lookup import torch_optimizers

BUILTIN = {
    "sgd": (torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
    "adam": (torch.optim.Adam, {"betas": [0.8, 0.95], "amsgrad": True}),
    "adamw": (torch.optim.AdamW, {"weight_decay": 0.1}),
    "adagrad": (torch.optim.Adagrad, {"lr_decay": 0.01}),
    "adadelta": (torch.optim.Adadelta, {"rho": 0.8}),
}


def settings(name: str, lr: float | None = None, **options: Any) -> OptimizerSettings:
    return OptimizerSettings(name=name, lr=lr, options=options)


def weights() -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in [(4, 3), (4, 4)]]


def train(parameters: list[nn.Parameter], optimizer: torch.optim.Optimizer) -> list[list[float]]:
    rows = torch.arange(12.0).view(4, 3).sin()

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = (parameters[1].tanh() @ parameters[0] - rows).square().sum()
        loss.backward()
        return loss.detach()

    for _ in range(5):
        if needs_closure(optimizer):
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()
    return [p.flatten().tolist() for p in parameters]


@pytest.mark.parametrize("name", BUILTIN)
@pytest.mark.parametrize("with_options", [False, True])
def test_a_catalogue_name_equals_torchs_class_step_for_step(name: str, with_options: bool) -> None:
    kind, options = BUILTIN[name]
    ours, theirs = weights(), weights()
    given: dict[str, Any] = {"lr": 0.03, **options} if with_options else {}
    expected = train(theirs, kind(theirs, **given))
    built = build_optimizer(ours, settings(name, 0.03 if with_options else None, **(options if with_options else {})))
    assert type(built) is kind
    assert train(ours, built) == expected


def test_cgd_is_built_with_its_options() -> None:
    built = build_optimizer(weights(), settings("cgd", 0.5, beta="fletcher-reeves", c2=0.2))
    assert isinstance(built, CGD)
    assert built.param_groups[0]["lr"] == 0.5
    assert built.param_groups[0]["c2"] == 0.2
    assert set(OPTIMIZERS) == {*BUILTIN, "cgd"}


@pytest.mark.parametrize("name", [kind.__name__ for kind in torch_optimizers().values()])
def test_every_class_of_torch_optim_is_found_whatever_its_case_and_trains(name: str) -> None:
    parameters = weights()
    built = build_optimizer(parameters, settings(name.swapcase()))
    assert type(built) is getattr(torch.optim, name)
    if name != "SparseAdam":
        before = [p.flatten().tolist() for p in parameters]
        assert train(parameters, built) != before


@pytest.mark.parametrize(("name", "needed"), [("cgd", True), ("lbfgs", True), ("adam", False), ("muon", False)])
def test_who_needs_a_closure(name: str, needed: bool) -> None:
    optimizer = build_optimizer(weights(), settings(name))
    assert needs_closure(optimizer) is needed
    if not needed:
        torch.optim.lr_scheduler.ConstantLR(optimizer)  # wraps `step`
        assert needs_closure(optimizer) is False


def test_only_trainable_parameters_are_handed_over() -> None:
    frozen, free = weights()
    frozen.requires_grad_(False)
    assert build_optimizer([frozen, free], settings("adam")).param_groups[0]["params"] == [free]
    free.requires_grad_(False)
    with pytest.raises(GradscopeError, match="no trainable parameter"):
        build_optimizer([frozen, free], settings("adam"))


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        (settings("adam", beta=[0.9, 0.99]), "optimizer.options.beta: torch's Adam has no such option", "betas"),
        (settings("sgd", wormhole=1), "optimizer.options.wormhole: torch's SGD has no such", "takes dampening, diff"),
        (settings("adam", lr_decay=1), "optimizer.options.lr_decay", "torch's Adam takes amsgrad, betas"),
        (settings("cgd", step_length=1.0), "optimizer.options.step_length: cgd has no such option", "powell"),
        (OptimizerSettings(name="adam", options={"lr": 1e-3}), "optimizer.options.lr: the", "set optimizer.lr"),
        (settings("adam", betas=0.9), "optimizer.options.betas: found 0.9, torch's Adam takes a list of 2", "betas"),
        (settings("adam", betas=[0.9, 0.9, 0.9]), "betas: found a list, torch's Adam takes a list of 2", "betas"),
        (settings("adam", eps="tiny"), 'eps: found "tiny", torch\'s Adam takes a number', "eps"),
        (settings("adam", eps=True), "eps: found true, torch's Adam takes a number", "eps"),
        (settings("adam", amsgrad="no"), 'amsgrad: found "no", torch\'s Adam takes true or false', "amsgrad"),
        (settings("cgd", beta=0.9), "beta: found 0.9, cgd takes text", "beta"),
        (settings("adam", eps=-1.0, weight_decay=0.1), r"torch's Adam does not take optimizer.options.eps = -1.0", ""),
        (settings("adam", betas=[0.9, 1.5]), "does not take optimizer.options.betas = .*1", "betas"),
        (settings("sgd", nesterov=True), "does not take optimizer.options.nesterov = true: Nesterov", "momentum"),
        (settings("cgd", beta="dai-yuan"), "beta = .*must be one of polak-ribiere, fletcher-reeves", "beta"),
        (settings("cgd", c2=1.5), "cgd does not take optimizer.options.c2 = 1.5: c1 and c2", "c1"),
        (settings("cgd", max_evaluations=0), "max_evaluations must be at least 1", ""),
        (settings("amda"), "has 'amda'", "did you mean adam?"),
        (settings("quantumprop"), "has 'quantumprop'", "pip install 'gradscope-tui[optimizers]'"),
        (settings("optimizer"), "has 'optimizer'", ""),
        (settings("torch:Adam"), "has 'torch:Adam'", ""),
        (settings("\x1b[31mred"), r"has '\\e\[31mred'", ""),
    ],
)
def test_what_is_wrong_is_named_with_what_is_allowed(given: OptimizerSettings, message: str, hint: str) -> None:
    with pytest.raises(GradscopeError, match=message) as caught:
        build_optimizer(weights(), given)
    assert hint in caught.value.hint
    assert caught.value.exit_code is ExitCode.USAGE


def test_a_wrong_option_is_found_before_memory_is_taken() -> None:
    built_for: list[int] = []

    class Hungry(torch.optim.SGD):
        def __init__(self, params: list[nn.Parameter], lr: float = 0.1, decay: float = 0.0) -> None:
            built_for.append(sum(p.numel() for p in params))
            super().__init__(params, lr=lr, weight_decay=decay)

    with pytest.raises(GradscopeError, match="decay = -1"):
        construct(Hungry, weights(), settings("hungry", decay=-1))
    assert set(built_for) == {4}


def test_muon_takes_only_matrices() -> None:
    matrix, bias = nn.Parameter(torch.zeros(3, 3)), nn.Parameter(torch.zeros(7))
    with pytest.raises(GradscopeError, match=r"only matrices; 1 of this model's 2 .* shape \[7\]") as caught:
        build_optimizer([matrix, bias], settings("muon"))
    assert "adamw" in caught.value.hint


def test_sparseadam_says_what_it_wants_and_trains_sparse_embeddings() -> None:
    parameters = weights()
    with pytest.raises(GradscopeError, match="only sparse gradients") as caught:
        train(parameters, build_optimizer(parameters, settings("sparseadam")))
    assert "Embedding(sparse=True)" in caught.value.hint
    table = nn.Embedding(5, 2, sparse=True)
    before = table.weight.detach().clone()
    optimizer = build_optimizer(list(table.parameters()), settings("sparseadam"))
    table(torch.tensor([1, 3])).square().sum().backward()
    optimizer.step()
    assert (table.weight.detach() != before).any(dim=1).tolist() == [False, True, False, True, False]


def test_cgd_refuses_what_it_cannot_make_one_vector_of() -> None:
    mixed = [nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2, dtype=torch.float64))]
    with pytest.raises(GradscopeError, match=r"cgd cannot train this model: .* one dtype"):
        build_optimizer(mixed, settings("cgd"))


class TestPytorchOptimizer:
    """The optional package, by a stand-in with its two functions."""

    @pytest.fixture
    def package(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Lion(torch.optim.SGD):
            def __init__(self, params: Any, lr: float = 1e-4, betas: tuple[float, float] = (0.9, 0.99), **kwargs: Any):
                if lr > 1:
                    raise OverflowError("an error of its own kind")
                super().__init__(params, lr=lr)

        class AliG(torch.optim.SGD):
            def __init__(self, params: Any, max_lr: float | None = None, **kwargs: Any):
                super().__init__(params, lr=1e-3)

        class SAM(torch.optim.SGD):
            def __init__(self, params: Any, base_optimizer: Any, **kwargs: Any):
                super().__init__(params)

        class LOMO(torch.optim.SGD):
            def __init__(self, model: Any, lr: float = 1e-3):
                super().__init__(model.parameters(), lr=lr)

        class Muon(torch.optim.SGD):
            def __init__(self, params: Any, lr: float = 1e-3):
                super().__init__([{"lr": 0.5 if group["use_muon"] else 0.25, **group} for group in params])

        class DeMo(torch.optim.SGD):
            def __init__(self, params: Any, lr: float = 1e-3):
                raise ImportError("You need to install `einops`")

        kinds = {kind.__name__.lower(): kind for kind in (Lion, AliG, SAM, LOMO, Muon, DeMo)}

        def load_optimizer(optimizer: str) -> Any:
            if optimizer.lower() not in kinds:
                raise NotImplementedError(f"not implemented optimizer : {optimizer}")
            return kinds[optimizer.lower()]

        module = ModuleType("pytorch_optimizer")
        module.load_optimizer = load_optimizer  # type: ignore[attr-defined]
        module.get_supported_optimizers = lambda: list(kinds)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "pytorch_optimizer", module)

    @pytest.mark.usefixtures("package")
    def test_it_is_loaded_by_name(self) -> None:
        parameters = weights()
        optimizer = build_optimizer(parameters, settings("pytorch_optimizer:Lion", 0.01))
        assert type(optimizer).__name__ == "Lion"
        assert not needs_closure(optimizer)
        train(parameters, optimizer)
        assert needs_closure(build_optimizer(weights(), settings("pytorch_optimizer:alig")))

    @pytest.mark.usefixtures("package")
    def test_the_muon_family_is_told_which_parameters_are_matrices(self) -> None:
        matrix, bias, kernel = (nn.Parameter(torch.zeros(shape)) for shape in [(3, 3), (3,), (2, 2, 2, 2)])
        optimizer = build_optimizer([bias, matrix, kernel], settings("pytorch_optimizer:muon"))
        assert [(group["params"], group["lr"]) for group in optimizer.param_groups] == [
            ([matrix], 0.5),
            ([bias, kernel], 0.25),
        ]

    @pytest.mark.usefixtures("package")
    @pytest.mark.parametrize(
        ("given", "message", "hint"),
        [
            (settings("pytorch_optimizer:lino"), "cannot load 'lino'", "did you mean lion?"),
            (settings("pytorch_optimizer:zzz"), "cannot load 'zzz'", "it has 6 optimizers"),
            (settings("pytorch_optimizer:lion", bettas=1), "options.bettas", "did you mean betas?"),
            (settings("pytorch_optimizer:lion", 5.0), "optimizer.lr = 5.0: an error of its own kind", ""),
            (settings("pytorch_optimizer:alig", 0.1), "AliG has no learning rate", "leave optimizer.lr out"),
            (settings("pytorch_optimizer:lomo"), "LOMO needs the model's module", "choose another"),
            (
                settings("pytorch_optimizer:demo", 0.1),
                "DeMo cannot be used here: You need to install",
                "choose another",
            ),
            (settings("pytorch_optimizer:sam"), "SAM needs optimizer.options.base_optimizer", "cannot be given"),
        ],
    )
    def test_what_is_wrong_is_named(self, given: OptimizerSettings, message: str, hint: str) -> None:
        with pytest.raises(GradscopeError, match=message) as caught:
            build_optimizer(weights(), given)
        assert hint in caught.value.hint

    def test_where_it_is_not_installed_the_command_that_installs_it_is_named(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "pytorch_optimizer", None)
        with pytest.raises(GradscopeError, match="not installed") as caught:
            build_optimizer(weights(), settings("pytorch_optimizer:lion"))
        assert caught.value.hint == "pip install 'gradscope-tui[optimizers]'"
        assert caught.value.exit_code is ExitCode.ENVIRONMENT
