"""What a preset is expected to take: the rough rule on round numbers, the last run, and whether it fits."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from builders import run_directory

from gradscope.analysis import rough as rule
from gradscope.analysis.expect import Expected, Source, outlook
from gradscope.analysis.machine import Gpu, Machine
from gradscope.analysis.rough import TOWERS, Tower, rough_peak_bytes, rough_seconds, rough_step_seconds
from gradscope.config.convert import preset_to_dict
from gradscope.config.load import load_preset
from gradscope.core.status import Status, StatusRecord
from gradscope.core.summary import Identity, Memory, Summary
from gradscope.rundir.files import read_json, write_json
from gradscope.rundir.layout import STATUS, SUMMARY

GIB = 1024**3
MACHINE = Machine(cores=4, memory_bytes=8 * GIB, no_gpu="no driver", no_gpu_remedy="install it")
CARD = Machine(cores=4, memory_bytes=8 * GIB, gpu=Gpu("NVIDIA A100-SXM4-40GB", 40 * GIB))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Llama of 1000 parameters, 2 layers of 10, that keeps 5 floats, over 7 words."""
    tower = Tower(parameters=1000, layers=2, width=10, floats=5, vocabulary=7)
    monkeypatch.setitem(TOWERS, ("llama", "tiny"), (tower,))


def llama(*overrides: str):
    base = ("data.batch_size=3", "data.sequence_length=4", "run.threads=1", "optimizer.name=sgd")
    return load_preset("llama-tiny", [*base, *overrides])


@pytest.mark.usefixtures("small")
def test_memory_is_weights_gradients_state_activations_and_logits():
    # weights and gradients 4 * 1000 * 2; activations 4 * 3 rows * 4 tokens * 10 * 2 layers * 5;
    # logits 3 * 4 * 3 rows * 4 positions * 7
    assert rough_peak_bytes(llama()) == 8000 + 4800 + 1008
    assert rough_peak_bytes(llama("optimizer.name=adam")) == 16000 + 4800 + 1008
    assert rough_peak_bytes(llama("optimizer.name=cgd")) == 20000 + 4800 + 1008


@pytest.mark.usefixtures("small")
def test_checkpointing_keeps_inputs_and_recomputes_one_layer():
    # 4 * 3 * 4 * 10 * (2 layers + 5)
    assert rough_peak_bytes(llama("memory.strategy=checkpoint")) == 8000 + 3360 + 1008


@pytest.mark.usefixtures("small")
def test_splitting_divides_the_rows_that_are_kept():
    parts = ("memory.strategy=accumulate", "memory.accumulate=3", "memory.mode=split")
    assert rough_peak_bytes(llama(*parts)) == 8000 + (4800 + 1008) / 3


@pytest.mark.usefixtures("small")
def test_half_precision_keeps_less_and_copies_weights():
    assert rough_peak_bytes(llama("run.precision=bf16")) == 8000 + 2000 + round(0.6 * (4800 + 1008))


@pytest.mark.usefixtures("small")
def test_time_is_operations_over_what_a_thread_does(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rule, "CPU_FLOPS_PER_SECOND", 72_000.0)
    preset = llama("budget.updates=10", "run.warmup=2", "profile.steps=1", "audit.enabled=false")
    # 6 * 1000 * 4 tokens * 3 rows = 72 000 operations an update
    assert rough_step_seconds(preset, MACHINE, on_gpu=False) == 1.0
    # start 5, measured 10, warm-up 2, memory 1, profiled 2 * 1
    assert rough_seconds(preset, MACHINE, on_gpu=False) == 5 + 10 + 2 + 1 + 2
    assert rough_seconds(load_again(preset, "budget.seconds=30"), MACHINE, on_gpu=False) == 5 + 30 + 5
    assert rough_seconds(load_again(preset, "budget.samples=7"), MACHINE, on_gpu=False) == 5 + 3 + 5
    assert rough_seconds(load_again(preset, "run.time_limit_seconds=8"), MACHINE, on_gpu=False) == 5 + 8
    assert rough_step_seconds(load_again(preset, "run.threads=2"), MACHINE, on_gpu=False) == 0.5
    assert rough_step_seconds(load_again(preset, "memory.strategy=checkpoint"), MACHINE, on_gpu=False) == 8 / 6
    assert rough_step_seconds(load_again(preset, "optimizer.name=cgd"), MACHINE, on_gpu=False) == 3.0


def load_again(preset, *overrides: str):
    from gradscope.config.load import apply_overrides

    return apply_overrides(preset, overrides)


@pytest.mark.usefixtures("small")
def test_a_known_card_does_a_share_of_its_data_sheet():
    # A100, fp32: 19.5 TFLOP/s
    assert rough_step_seconds(llama(), CARD, on_gpu=True) == pytest.approx(72_000 / (0.3 * 19.5e12))
    unknown = replace(CARD, gpu=Gpu("some card", None))
    assert rough_step_seconds(llama(), unknown, on_gpu=True) == pytest.approx(72_000 / 10e12)


def test_the_towers_have_the_parameters_of_the_catalogue():
    totals = {key: sum(tower.parameters for tower in towers) for key, towers in TOWERS.items()}
    assert totals["nanovlm", "full"] == 222_081_600
    assert totals["nanovlm", "tiny"] == 723_168


def test_the_tiny_presets_come_out_as_they_were_measured():
    measured = {
        "quick": 34_307_384,
        "llama-tiny": 77_597_056,
        "modernbert-tiny": 61_119_308,
        "nanovlm-tiny": 68_648_536,
    }
    for name, peak_bytes in measured.items():
        assert rough_peak_bytes(load_preset(name)) == pytest.approx(peak_bytes, rel=0.15)


def test_a_model_of_unknown_size_has_no_figure(tmp_path: Path):
    for override in ("model.name=hf:some/model", "model.options={num_hidden_layers = 2}"):
        ahead = outlook(load_preset("llama-tiny", [override]), MACHINE, tmp_path)
        assert ahead.expected == Expected(None, None, Source.UNKNOWN)
        assert (ahead.fits, ahead.obstacle) == (None, "")


def finished(
    out: Path,
    *overrides: str,
    state: Status = Status.DONE,
    seconds: int = 12,
    run_id: str = "",
    device: str = "cpu",
) -> Path:
    """A run of `quick` that took a known time and 5000 bytes."""
    settings = preset_to_dict(load_preset("quick", overrides))
    run_dir = run_directory(out, state, preset=settings, run_id=run_id or "20270115T080000Z-0a1b2c")
    record = read_json(run_dir / STATUS, StatusRecord)
    late = record.updated_wall_ns + seconds * 10**9
    write_json(run_dir / STATUS, msgspec.structs.replace(record, updated_wall_ns=late))
    summary = Summary(
        run_id=run_dir.name,
        status=state,
        identity=Identity(preset="quick", device=device),
        memory=Memory(allocated_peak_bytes=5000),
    )
    write_json(run_dir / SUMMARY, summary)
    return run_dir


def test_the_last_run_with_the_same_settings_counts(tmp_path: Path):
    finished(tmp_path, "run.seed=5")
    ahead = outlook(load_preset("quick"), MACHINE, tmp_path)
    assert ahead.expected == Expected(12.0, 5000, Source.LAST_RUN)
    assert ahead.fits is True
    finished(tmp_path, seconds=20, run_id="20270115T090000Z-0a1b2d")
    assert outlook(load_preset("quick"), MACHINE, tmp_path).expected.seconds == 20.0


def test_runs_that_are_unlike_do_not_count(tmp_path: Path):
    finished(tmp_path, "data.batch_size=4", run_id="20270115T080000Z-000001")
    finished(tmp_path, state=Status.FAILED, run_id="20270115T080000Z-000002")
    finished(tmp_path, device="cuda:0", run_id="20270115T080000Z-000004")
    (tmp_path / "quick" / "20270115T080000Z-000003").mkdir()
    assert outlook(load_preset("quick"), MACHINE, tmp_path).expected.source is Source.ROUGH
    assert outlook(load_preset("quick"), CARD, tmp_path).expected == Expected(12.0, 5000, Source.LAST_RUN)


def test_runs_of_another_machine_do_not_count(tmp_path: Path):
    run_directory(tmp_path, Status.DONE, preset=preset_to_dict(load_preset("quick")), elsewhere=True)
    assert outlook(load_preset("quick"), MACHINE, tmp_path).expected.source is Source.ROUGH


def test_what_does_not_fit_says_how_much_it_needs():
    tight = replace(MACHINE, memory_bytes=600 * 1024**2)
    ahead = outlook(load_preset("quick"), tight, None)
    assert ahead.fits is False
    assert ahead.obstacle == "needs about 633 MiB of memory, and this machine has 600 MiB"
    assert ahead.remedy.startswith("lower data.batch_size")


def test_a_card_counts_where_the_run_would_be_on_it():
    assert outlook(load_preset("quick"), CARD, None).on_gpu
    assert not outlook(load_preset("quick", ["run.device=cpu"]), CARD, None).on_gpu
    big = outlook(load_preset("llama-1b", ["data.batch_size=32"]), CARD, None)
    assert big.obstacle.startswith("needs about ")
    assert big.obstacle.endswith("and NVIDIA A100-SXM4-40GB has 40.0 GiB")


def test_remedies_are_not_what_the_preset_does_already():
    tight = replace(MACHINE, memory_bytes=1)
    for overrides, remedy in (
        ([], "lower data.batch_size, or set memory.strategy to checkpoint, or try an optimizer that keeps less"),
        (["data.batch_size=1", "optimizer.name=sgd"], "set memory.strategy to checkpoint"),
    ):
        found = outlook(load_preset("quick", overrides), tight, None)
        assert "of memory, and this machine has 1 B" in found.obstacle
        assert found.remedy == remedy
    long = outlook(load_preset("quick", ["budget.updates=100000000"]), MACHINE, None)
    assert long.obstacle.startswith("is meant for a GPU: about ")
    assert " days" in long.obstacle
    assert long.remedy == "lower budget.updates"


@pytest.mark.parametrize(
    ("name", "override", "obstacle"),
    [
        ("quick", "run.device=cuda", 'needs a GPU (run.device = "cuda"): no driver'),
        ("quick", "run.precision=fp16", 'needs a GPU (run.precision = "fp16"): no driver'),
        ("grid-paper", "run.seed=0", "needs a GPU for its claims: no driver"),
        ("vit-b16", "run.threads=2", "is meant for a GPU: about 2 h 30 min on this CPU"),
        ("quick", "run.seed=0", ""),
    ],
)
def test_what_needs_a_gpu_says_why(name: str, override: str, obstacle: str):
    assert outlook(load_preset(name, [override]), MACHINE, None).obstacle == obstacle
    assert outlook(load_preset(name, [override]), CARD, None).obstacle == ""
