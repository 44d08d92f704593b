"""What a worker does with a preset, run in this process on a small model: stages, records, numbers, trouble."""

import math

import pytest
import torch

from gradscope.core import events as ev
from gradscope.core.events import Stage
from gradscope.rundir.control import CaptureRequested, StopRequested


def test_a_run_goes_through_its_stages_and_numbers_everything(run):
    code, events = run("tiny", "profile.steps=2", "audit.enabled=true", "audit.flops=true")
    assert code == 0
    assert [event.seq for event in events.all] == list(range(len(events.all)))
    assert [event.stage for event in events.of(ev.StageEntered)] == [
        Stage.WARMUP,
        Stage.MEASURE,
        Stage.MEMORY,
        Stage.PROFILE,
        Stage.AUDIT,
    ]
    assert [step.step for step in events.steps()] == list(range(1, 12))
    assert [step.stage.value for step in events.steps()] == [
        *["warmup"] * 2,
        *["measure"] * 6,
        "memory",
        *["profile"] * 2,
    ]
    assert events.one(ev.WorkerEnded).reason == "finished"


def test_totals_are_the_sums_of_the_measured_steps(run):
    _, events = run()
    totals, measured = events.one(ev.Totals), events.steps(Stage.MEASURE)
    assert totals.steps == len(measured) == 6
    assert totals.samples == sum(step.samples for step in measured) == 48
    assert totals.seconds == pytest.approx(sum(step.wall_ms for step in measured) / 1e3)
    assert totals.tokens is None


def test_phases_add_up_to_the_step(run):
    _, events = run()
    for step in events.steps():
        phases = step.phases
        total = phases.data + phases.h2d + phases.forward + phases.backward + phases.optimizer + phases.other
        assert total == pytest.approx(step.wall_ms, abs=0.01)


@pytest.mark.parametrize(
    ("budget", "steps"), [("budget.updates=1", 1), ("budget.samples=20", 3), ("budget.seconds=1e-6", 1)]
)
def test_a_budget_is_updates_samples_or_seconds(run, budget, steps):
    code, events = run("tiny", budget)
    assert code == 0
    assert events.one(ev.Totals).steps == steps


def test_no_updates_are_a_clean_result(run):
    code, events = run("tiny", "budget.updates=0", "profile.steps=3")
    assert code == 0
    assert events.steps() == []
    assert events.one(ev.Totals).steps == 0
    assert list(events.run_dir.glob("*.pt.trace.json.gz")) == []


def test_without_warm_up_memory_is_still_looked_at(run):
    _, events = run("tiny", "run.warmup=0")
    assert {record.source for record in events.of(ev.MemoryMeasured)} == {"hooks", "allocator"}
    assert [step.stage.value for step in events.steps()] == [*["measure"] * 6, *["memory"] * 2]


def test_memory_by_category_of_a_model_counted_by_hand(run):
    _, events = run("tiny", "optimizer.name=adam")
    hooks, allocator = events.of(ev.MemoryMeasured)
    parameters = (64 * 64 + 64 + 64 + 1) * 4
    assert hooks.parameters_bytes == parameters
    assert hooks.gradients_bytes == parameters
    assert (
        hooks.optimizer_state_bytes == 2 * parameters + 4 * 4
    )  # two moments, and a step count for each of four tensors
    assert hooks.inputs_bytes == 8 * (64 + 1) * 4
    # forward saves: the ReLU's output (also the head's input), the head's output as the loss's input; the targets are
    # inputs
    assert hooks.saved_activations_bytes == 8 * 64 * 4 + 8 * 4
    assert allocator.forward_end_bytes == pytest.approx(hooks.saved_activations_bytes, rel=0.02)


@pytest.mark.parametrize("optimizer", ["sgd", "cgd"])
def test_the_same_preset_and_seed_give_the_same_losses_bit_for_bit(run, optimizer):
    losses = [
        run("tiny", "model.options={dropout=0.2}", f"optimizer={{name={optimizer!r}}}", f"data.workers={workers}")[
            1
        ].losses()
        for workers in (0, 0, 2)
    ]
    assert losses[0] == losses[1] == losses[2]
    assert len(set(losses[0])) > 1


def test_a_factory_that_draws_from_numpy_repeats_itself(run):
    assert run("drawing")[1].losses() == run("drawing")[1].losses()


def test_another_seed_gives_other_losses(run):
    assert run("tiny")[1].losses() != run("tiny", "run.seed=1")[1].losses()


def test_accumulation_is_one_step_with_micro_steps_inside(run):
    _, events = run("tiny", "memory={strategy='accumulate', accumulate=4}")
    steps = events.steps(Stage.MEASURE)
    assert len(steps) == 6
    assert {step.samples for step in steps} == {32}
    assert {len(step.micro_ms) for step in steps} == {4}
    assert events.one(ev.ModelBuilt).micro_steps == 4


def test_split_trains_like_the_big_batch(run):
    plain = run("tiny")[1].losses()
    split = run("tiny", "memory={strategy='accumulate', accumulate=3, mode='split'}")[1].losses()
    assert split == pytest.approx(plain, rel=1e-5)


def test_split_rows_with_unequal_labels_train_like_the_big_batch_on_one_scale(run):
    plain = run("labelled")[1]
    for parts in (2, 4, 8):  # in 8 parts, some hold no label at all
        split = run("labelled", f"memory={{strategy='accumulate', accumulate={parts}, mode='split'}}")[1]
        assert split.losses() == pytest.approx(plain.losses(), rel=1e-5)
        assert [step.tokens for step in split.steps()] == [step.tokens for step in plain.steps()]


def test_updates_without_any_label_are_skipped_and_said_once(run):
    code, events = run("labelled", "model.options={most=0}")
    assert code == 0
    assert set(events.losses()) == {None}
    assert [note.step for note in events.of(ev.Note) if note.code == "zero_tokens"] == [1]
    assert events.one(ev.Totals).tokens == 0


def test_checkpointing_trains_like_the_plain_strategy_and_shows_its_recomputation(run):
    dropout = "model.options={blocks=4, dropout=0.5}"
    plain = run("tiny", dropout)[1]
    checkpointed = run("tiny", dropout, "memory.strategy=checkpoint")[1]
    assert checkpointed.losses() == plain.losses()
    assert all(step.phases.recompute > 0 for step in checkpointed.steps())
    assert all(step.phases.recompute is None for step in plain.steps())


def test_a_line_search_counts_its_evaluations_apart_from_steps(run):
    _, events = run("tiny", "optimizer={name='cgd'}")
    assert events.one(ev.Totals).steps == 6
    assert all(step.evaluations >= 1 for step in events.steps())
    assert sum(step.evaluations for step in events.steps()) > len(events.steps())


def test_a_loss_that_is_not_a_number_stops_the_run_and_says_where(run):
    code, events = run("not_a_number")
    assert code == 1
    failure = events.one(ev.TrainingFailed)
    assert "loss is nan at step 5" in failure.message
    assert "on_nonfinite" in failure.hint
    assert events.steps()[-1].nonfinite == "nan"
    assert events.steps()[-1].loss is None
    assert events.one(ev.Totals).steps == 3


def test_a_loss_that_is_not_a_number_is_flagged_where_the_run_goes_on(run):
    code, events = run("not_a_number", "run.on_nonfinite=continue")
    assert code == 0
    assert events.one(ev.Note).code == "nonfinite_loss"
    assert len(events.steps(Stage.MEASURE)) == 6


@pytest.mark.parametrize("model", ["out_of_memory", "host_out_of_memory"])
def test_memory_running_out_is_its_own_result(run, model):
    code, events = run(model)
    failure = events.one(ev.TrainingFailed)
    assert code == failure.exit_code == 3
    assert failure.out_of_memory
    assert (failure.step, failure.phase) == (5, "forward")
    assert "checkpoint" in failure.hint
    assert events.one(ev.WorkerEnded).reason == "failed"


def test_what_a_model_raises_is_told_in_its_own_words(run, capfd):
    code, events = run("raising")
    assert code == 1
    assert events.one(ev.TrainingFailed).message == "labels out of range"
    assert "Traceback" in capfd.readouterr().err


def test_an_interrupt_that_a_model_raises_is_the_models_error(run, capfd):
    code, events = run("interrupting")
    assert code == 1
    assert events.one(ev.TrainingFailed).error_type == "KeyboardInterrupt"


def test_a_factory_that_raises_is_a_clear_failure(run):
    code, events = run("raising_factory")
    failure = events.one(ev.TrainingFailed)
    assert code == 1
    assert "the checkpoint [/red] does not fit this model" in failure.message
    assert failure.step is None
    assert failure.phase == "setup"


def test_training_that_fails_in_a_profile_window_keeps_the_window_and_its_own_error(run):
    code, events = run("raising", "profile.steps=4", "budget.updates=1", "model.options={at=6}")
    assert code == 1
    window = events.one(ev.ProfileEnded)
    assert window.file is not None
    assert (events.run_dir / window.file).exists()
    assert events.one(ev.TrainingFailed).message == "labels out of range"


def test_a_stop_is_a_clean_end(run):
    code, events = run(requests=[StopRequested(signal=None)])
    assert code == 0
    assert events.one(ev.WorkerEnded).reason == "stopped"
    assert events.one(ev.Totals).steps == 0


def test_a_capture_profiles_steps_that_do_not_count(run):
    code, events = run(requests=[CaptureRequested(steps=2)])
    assert code == 0
    assert [step.stage.value for step in events.steps()] == [
        *["warmup"] * 2,
        *["profile"] * 2,
        *["measure"] * 6,
        "memory",
    ]
    started, ended = events.one(ev.ProfileStarted), events.one(ev.ProfileEnded)
    assert started.requested
    assert started.first_step == 3
    assert ended.steps == 2
    assert events.one(ev.Totals).steps == 6


def test_checkpointing_that_does_nothing_is_reported(run):
    code, events = run("evaluating", "memory.strategy=checkpoint", "audit.enabled=true")
    assert code == 0
    assert events.one(ev.Audited).no_effect is not None


def test_a_row_that_only_the_audit_reads_and_cannot_does_not_fail_the_run(run):
    code, events = run("unreadable_first_row", "audit.enabled=true", "audit.flops=true")
    assert code == 0
    assert events.one(ev.Audited).passed is None
    assert events.one(ev.Audited).reason.startswith("its rows cannot be read: row 0 of the data set")
    assert (
        "row 0 of the data set cannot be read"
        in next(note for note in events.of(ev.Note) if note.code == "flops").message
    )


def test_operations_are_those_of_the_plain_strategy_and_those_executed(run):
    _, plain = run("tiny", "model.options={blocks=3}", "audit.flops=true")
    _, both = run("tiny", "model.options={blocks=3}", "audit.flops=true", "memory.strategy=checkpoint-accumulate")
    forward = 2 * 8 * 64 * 64 * 3 + 2 * 8 * 64
    by_hand = forward + 2 * forward - 2 * 8 * 64 * 64  # backward: weights and inputs, but no gradient of the data
    assert plain.one(ev.FlopsCounted).model_flops == by_hand
    assert plain.one(ev.FlopsCounted).executed_flops == by_hand
    counted = both.one(ev.FlopsCounted)
    assert counted.model_flops == 4 * by_hand
    assert counted.executed_flops == 4 * (by_hand + 2 * 8 * 64 * 64 * 3)


def test_losses_are_finite_numbers_unless_flagged(run):
    _, events = run()
    assert all(math.isfinite(loss) for loss in events.losses())


def test_an_accelerator_that_is_not_there_is_said_so(run):
    if torch.cuda.is_available():
        pytest.skip("there is one")
    code, events = run("tiny", "run.device=cuda:1")
    failure = events.one(ev.TrainingFailed)
    assert code == 6
    assert "CUDA" in failure.message
    assert "doctor" in failure.hint
