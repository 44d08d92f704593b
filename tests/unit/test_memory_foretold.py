"""Foretold memory: the categories are exact, and the peak is that of a run's memory step."""

from pathlib import Path

import msgspec
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from gradscope.config.convert import preset_to_dict
from gradscope.config.load import load_preset
from gradscope.core.estimate import CATEGORIES, Estimate
from gradscope.core.events import MemoryMeasured
from gradscope.errors import GradscopeError
from gradscope.worker.estimate.__main__ import answer
from gradscope.worker.estimate.trace import foretell
from gradscope.worker.estimate.watch import Watch
from tests.engine import SMALL, run_engine

ROOT = Path(__file__).parents[2]
TINY_BYTES = (64 * 64 + 64 + 64 + 1) * 4
ROWS = 512


@pytest.fixture(autouse=True)
def in_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def foretold(model: str, *overrides: str) -> Estimate:
    return foretell(load_preset("quick", [f"model.name=py:tests/user_models.py:{model}", *SMALL, *overrides]))


def test_categories_of_a_small_model_are_exact() -> None:
    found = foretold("tiny", "optimizer.name=adam")
    assert found.parameters_bytes == TINY_BYTES
    assert found.gradients_bytes == TINY_BYTES
    assert found.optimizer_state_bytes == 2 * TINY_BYTES + 4 * 4  # Adam counts the steps of each of four parameters
    assert found.inputs_bytes == 8 * (64 + 1) * 4
    assert found.buffers_bytes == 0


def test_what_is_held_at_the_peak_adds_up_to_it() -> None:
    found = foretold("tiny", "optimizer.name=adam", f"data.batch_size={ROWS}")
    assert tuple(found.at_peak_bytes) == CATEGORIES
    assert sum(found.at_peak_bytes.values()) == found.peak_bytes
    assert found.phase_peak_bytes[found.peak_phase] == found.peak_bytes


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adagrad", "adadelta", "cgd"])
@pytest.mark.parametrize(
    ("strategy", "bar"),
    [
        (["memory.strategy=standard"], 0.05),
        (["memory.strategy=checkpoint"], 0.08),
        (["memory.strategy=accumulate", "memory.accumulate=5"], 0.05),
        (["memory.strategy=checkpoint-accumulate", "memory.accumulate=3", "memory.mode=split"], 0.08),
    ],
    ids=["standard", "checkpoint", "accumulate", "checkpoint-accumulate-split"],
)
def test_the_peak_is_that_of_a_run(tmp_path: Path, optimizer: str, strategy: list[str], bar: float) -> None:
    overrides = [
        f"data.batch_size={ROWS}",
        "model.options.blocks=4",
        f"optimizer.name={optimizer}",
        "budget.updates=1",
        "run.warmup=1",
        *strategy,
    ]
    found = foretold("tiny", *overrides)
    code, events = run_engine(tmp_path / "run", "tiny", overrides)
    assert code == 0
    [measured] = [one for one in events.of(MemoryMeasured) if one.source == "allocator"]
    assert found.peak_bytes == pytest.approx(measured.allocated_peak_bytes, rel=bar)
    assert found.peak_activations_bytes == pytest.approx(measured.peak_activations_bytes, rel=bar)


@pytest.mark.parametrize("search", ["strong-wolfe", "none"])
def test_conjugate_gradient_holds_three_vectors_in_a_step_and_one_between(search: str) -> None:
    found = foretold("tiny", "optimizer.name=cgd", f"optimizer.options.line_search={search}")
    assert found.optimizer_state_bytes == TINY_BYTES
    assert found.at_peak_bytes["optimizer"] == 3 * TINY_BYTES


def test_a_card_holds_one_micro_batch_at_a_time_in_blocks_of_512_bytes() -> None:
    settings = ["memory.strategy=accumulate", "memory.accumulate=4", f"data.batch_size={ROWS}"]
    here, card = foretold("tiny", *settings), foretold("tiny", *settings, "run.device=cuda")
    assert here.at_peak_bytes["inputs"] == 4 * ROWS * 65 * 4
    assert card.at_peak_bytes["inputs"] == ROWS * 65 * 4
    assert card.device == "cuda"
    assert all(size % 512 == 0 for name, size in card.at_peak_bytes.items() if name in ("inputs", "activations"))
    assert any("card" in note for note in card.notes)


def test_an_optimizer_on_a_card_works_on_all_parameters_at_once() -> None:
    settings = ["optimizer.name=adam", "model.options.blocks=8"]
    here, card = foretold("tiny", *settings), foretold("tiny", *settings, "run.device=cuda")
    assert card.phase_peak_bytes["optimizer"] >= here.phase_peak_bytes["optimizer"] + 8 * 64 * 64 * 4 // 2


def test_masks_select_as_many_positions_as_have_labels() -> None:
    watch = Watch()
    watch.labels = 3
    with FakeTensorMode(), watch:
        mask = torch.zeros(4, 5, dtype=torch.bool)
        assert torch.zeros(4, 5, 7)[mask].shape == (3, 7)
        assert torch.nonzero(mask).shape == (3, 2)
        assert torch.zeros(4, 5).masked_select(mask).shape == (3,)
        assert torch.zeros(4, 5, 6)[:, :, torch.arange(2)].shape == (4, 5, 2)


def test_a_loop_that_waits_for_a_value_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradscope.worker.estimate.watch.MOST_READINGS", 100)

    def wait() -> None:
        while not torch.zeros(3).any():
            pass

    with FakeTensorMode(), Watch(), pytest.raises(GradscopeError, match="waits for a value"):
        wait()


def test_a_condition_on_values_is_false_and_noted() -> None:
    watch = Watch()
    with FakeTensorMode(), watch:
        assert not torch.ones(3).all()
        assert float(torch.zeros(1)) == 1.0
    assert list(watch.assumptions) == ["conditions on tensors' values are taken as false"]


def answered(*overrides: str) -> tuple[Estimate | None, str]:
    preset = load_preset("quick", [*SMALL, *overrides])
    found = answer(msgspec.json.encode(preset_to_dict(preset)))
    return found.estimate, "" if found.refusal is None else found.refusal.message


def test_what_cannot_be_foretold_is_refused_in_one_line(tmp_path: Path) -> None:
    module = tmp_path / "choosing.py"
    module.write_text(
        "import torch\n"
        "from tests.user_models import Regression, Rows\n"
        "class Choosing(Regression):\n"
        "    def forward(self, inputs, targets):\n"
        "        return super().forward(inputs, targets) * torch.unique(targets).numel()\n"
        "def build():\n"
        "    return Choosing(), Rows()\n"
    )
    estimate, message = answered(f"model.name=py:{module}:build")
    assert estimate is None
    assert message == "the update cannot be foretold: aten._unique2.default depends on values"


def test_rows_that_were_made_with_the_model_need_no_values(tmp_path: Path) -> None:
    module = tmp_path / "kept_rows.py"
    module.write_text(
        "import torch\n"
        "from torch.utils.data import Dataset\n"
        "from tests.user_models import Regression\n"
        "class Kept(Dataset):\n"
        "    def __init__(self):\n"
        "        self.inputs, self.targets = torch.randn(50, 64), torch.randn(50, 1)\n"
        "    def __len__(self):\n"
        "        return 50\n"
        "    def __getitem__(self, index):\n"
        "        return {'inputs': self.inputs[index], 'targets': self.targets[index]}\n"
        "def build():\n"
        "    return Regression(), Kept()\n"
    )
    estimate, message = answered(f"model.name=py:{module}:build")
    assert message == ""
    assert estimate is not None
    assert estimate.peak_bytes == foretold("tiny").peak_bytes


def test_a_model_that_raises_is_told_with_its_own_words() -> None:
    estimate, message = answered("model.name=py:tests/user_models.py:raising_factory")
    assert estimate is None
    assert "the checkpoint [/red] does not fit this model" in message


def test_optimizers_that_decide_by_values_say_so() -> None:
    assert any("LBFGS" in note for note in foretold("tiny", "optimizer.name=LBFGS").notes)
