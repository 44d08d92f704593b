"""Claims on a grid with known ratios: reproduced, refuted, or undecided, and why."""

from typing import Any

import msgspec
import pytest

from gradscope.analysis.axes import find_axes
from gradscope.analysis.claims import Judgement, judge
from gradscope.analysis.results import Row
from tests.made_grid import claim, grid, row

EXACT = {"metric": "peak_memory_bytes"}


def judged(rows: list[Row], **fields: Any) -> Judgement:
    return judge(claim(**fields), rows, find_axes(rows))


def test_a_ratio_is_taken_between_cells_that_differ_in_the_named_axes_alone() -> None:
    found = judged(grid(), **EXACT, at_most=0.5)
    assert [one.value for one in found.evidence] == [0.5, 0.5, 0.25, 0.25]
    assert [one.cell for one in found.evidence][:2] == ["vit sgd checkpoint", "vit adam checkpoint"]
    assert found.figure == 0.375  # the middle of 0.25 and 0.5
    assert found.verdict == "reproduced"
    assert found.reason == "median ratio 0.375, claimed at most 0.5"


@pytest.mark.parametrize(("statistic", "figure"), [("median", 0.375), ("mean", 0.375), ("min", 0.25), ("max", 0.5)])
def test_statistics(statistic: str, figure: float) -> None:
    assert judged(grid(), **EXACT, statistic=statistic).figure == figure


def test_settings_that_vary_with_the_named_one_may_differ() -> None:
    """The learning rate goes with the optimizer, and micro-batches with the strategy."""
    found = judged(
        grid(),
        metric="loss_last",
        subset={"model.name": "llama", "memory.strategy": "standard"},
        numerator={"optimizer.name": ["sgd", "adadelta"]},
        denominator={"optimizer.name": "adam"},
        at_most=1.0,
    )
    assert [(one.numerator, one.denominator, one.value) for one in found.evidence] == [(4.0, 5.0, 0.8)]
    assert found.verdict == "reproduced"


def test_a_bound_is_widened_by_the_tolerance() -> None:
    assert judged(grid(), **EXACT, at_most=0.3).verdict == "refuted"
    assert judged(grid(), **EXACT, at_most=0.3, tolerance=0.25).verdict == "reproduced"  # 0.375 = 0.3 * 1.25
    below = judged(grid(), **EXACT, at_most=None, at_least=0.5, tolerance=0.25)
    assert (below.verdict, below.at_least) == ("reproduced", 0.375)


def test_a_metric_itself_can_be_bounded() -> None:
    found = judged(grid(), **EXACT, denominator=None, numerator={}, subset={"model.name": "vit"}, at_most=4e7)
    assert len(found.evidence) == 6
    assert (found.is_ratio, found.figure) == (False, 42 * 1024 * 1024)  # between 40 and 44 MiB
    assert found.verdict == "refuted"


def test_missing_and_failed_cells_leave_a_claim_undecided_where_they_could_change_it() -> None:
    rows = grid(vit_sgd_checkpoint={"status": "oom"}, llama_sgd_checkpoint={"status": "missing"})
    found = judged(rows, **EXACT, statistic="max", at_most=0.6)
    assert found.verdict == "undecided"
    assert found.reason == "missing cells: 1 oom, 1 missing; the others come to max ratio 0.5, claimed at most 0.6"
    assert [one.why_not for one in found.evidence] == ["oom", "", "missing", ""]


def test_missing_cells_that_could_not_change_a_verdict_leave_it() -> None:
    rows = grid(vit_sgd_checkpoint={"status": "failed"})
    high = judged(rows, **EXACT, statistic="max", at_most=0.4)
    assert high.verdict == "refuted"
    assert high.reason.endswith("1 of 4 cells have no value and could not change that")
    assert judged(rows, **EXACT, statistic="min", at_most=0.3).verdict == "reproduced"
    assert judged(rows, **EXACT, statistic="mean", at_most=0.6).verdict == "undecided"
    # of 0.25, 0.25, 0.5 and one unknown value the median is 0.25 to 0.375
    assert judged(rows, **EXACT, at_most=0.6).verdict == "reproduced"


def test_without_any_cell_a_claim_is_undecided() -> None:
    rows = [msgspec.structs.replace(one, status="missing", values={}) for one in grid()]
    assert judged(rows, **EXACT).reason == "missing cells: 4 missing"
    assert judged(grid(), subset={"model.name": "nanovlm"}).reason.startswith("missing cells: the grid has none")
    unknown = judged(grid(), metric="beauty")
    assert (unknown.verdict, unknown.reason) == ("undecided", "the results have no column beauty")


def test_other_hardware_leaves_a_claim_undecided() -> None:
    found = judged(grid(), **EXACT, needs="cuda", at_most=9)
    assert found.verdict == "undecided"
    assert found.reason == "other hardware: it takes a CUDA card to judge, and this ran on cpu"
    assert found.figure == 0.375
    on_cards = [msgspec.structs.replace(one, device="cuda:0") for one in grid()]
    assert judged(on_cards, **EXACT, needs="cuda", at_most=9).verdict == "reproduced"


def test_measured_numbers_of_two_machines_make_no_ratio_but_sizes_do() -> None:
    rows = grid(vit_sgd_checkpoint={"host": "elsewhere"}, llama_sgd_standard={"contaminated": True})
    why = [one.why_not for one in judged(rows).evidence]
    assert why == ["other hardware", "", "a foreign process on the card", ""]
    assert [one.why_not for one in judged(rows, **EXACT).evidence] == ["", "", "", ""]


def test_a_measured_figure_near_its_bound_is_noise_from_single_runs() -> None:
    rows = grid()  # ratios 1.2, 1.5, 1.2, 1.5: median 1.35, and 10 % of noise
    assert judged(rows, at_most=1.5).verdict == "reproduced"  # 1.35 * 1.1 = 1.485
    near = judged(rows, at_most=1.45)
    assert near.verdict == "undecided"
    assert near.reason.startswith("noise: median ratio 1.35, claimed at most 1.45, which is too near to call")
    assert (near.low, near.figure, near.high) == pytest.approx((1.215, 1.35, 1.485))
    assert judged(rows, at_most=1.2).verdict == "refuted"


def test_steps_that_differ_widely_make_a_figure_less_sure() -> None:
    rows = [row("vit", "sgd"), row("vit", "sgd", "checkpoint", step_ms=120.0, within=(0.5, 2.0))]
    found = judged(rows, at_most=1.5)
    assert (found.low, found.high) == pytest.approx((0.6, 2.4))
    assert found.verdict == "undecided"


def test_a_run_that_waited_for_its_core_may_have_been_quicker() -> None:
    rows = [row("vit", "sgd"), row("vit", "sgd", "checkpoint", step_ms=400.0, values={"waited_pct": 70.0})]
    found = judged(rows, at_most=1.5)
    assert (found.low, found.figure, found.high) == pytest.approx((1.2, 4.0, 4.4))  # 30 % of its 400 ms are 120
    assert found.verdict == "undecided"
    assert "from one run a cell (1 of 2 disturbed); sweep.repeats = 5 decides" in found.reason
    assert judged(rows, at_most=1.0).verdict == "refuted"


def test_no_verdict_on_times_hangs_on_one_run() -> None:
    rows = [*grid(vit_sgd_checkpoint={"step_ms": 900.0})]
    found = judged(rows, statistic="max", at_most=1.7)
    assert found.verdict == "undecided"
    assert "max ratio 9" in found.reason
    assert "hangs on one run, vit sgd checkpoint" in found.reason
    two = grid(vit_sgd_checkpoint={"step_ms": 900.0}, llama_sgd_checkpoint={"step_ms": 900.0})
    assert judged(two, statistic="max", at_most=1.7).verdict == "refuted"


def test_a_loss_near_its_bound_could_be_the_seeds() -> None:
    rows = [row("vit", "sgd", loss=2.0), row("vit", "sgd", "checkpoint", loss=1.96)]
    found = judged(rows, metric="loss_last", at_most=1.0)
    assert found.verdict == "undecided"
    assert judged(rows, metric="loss_last", at_most=1.05).verdict == "reproduced"


def seeds(*step_ms: float) -> list[Row]:
    return [
        one
        for seed, ms in enumerate(step_ms)
        for one in (row(seed=seed), row(strategy="checkpoint", seed=seed, step_ms=ms))
    ]


def test_with_repeats_the_interval_over_seeds_decides() -> None:
    rows = seeds(118, 120, 122)  # mean 1.2, sd 0.02: 4.3027 * 0.02 / sqrt(3) = 0.0497
    found = judged(rows, at_most=1.26)
    assert (found.low, found.figure, found.high) == pytest.approx((1.1503, 1.2, 1.2497), abs=1e-4)
    assert found.verdict == "reproduced"
    near = judged(rows, at_most=1.24)
    assert near.verdict == "undecided"
    assert "from 3 seeds; more repeats decide" in near.reason
    assert judged(rows, at_most=1.1).verdict == "refuted"


def test_equal_gradients_refute_a_changed_loss_as_an_effect() -> None:
    rows = grid(vit_sgd_checkpoint={"loss": 1.0}, vit_adam_checkpoint={"loss": 0.5})
    fields: dict[str, Any] = {"metric": "loss_last", "subset": {"model.name": "vit"}, "at_most": 0.95}
    assert judged(rows, **fields).verdict == "reproduced"
    found = judged(rows, **fields, evidence="audit")
    assert found.verdict == "refuted"
    assert "the gradient equal to the plain one in 2 of 2 pairs" in found.reason
    assert found.figure == 0.5


@pytest.mark.parametrize("audit", [None, False])
def test_without_equal_gradients_the_ratio_decides(audit: bool | None) -> None:
    rows = grid(vit_sgd_checkpoint={"loss": 1.0, "audit_passed": audit}, vit_adam_checkpoint={"loss": 0.5})
    found = judged(rows, metric="loss_last", subset={"model.name": "vit"}, at_most=0.95, evidence="audit")
    assert found.verdict == "reproduced"


def test_a_loss_over_more_samples_is_noted() -> None:
    fields: dict[str, Any] = {"metric": "loss_last", "numerator": {"memory.strategy": "accumulate"}, "at_most": 0.7}
    assert judged(grid(), **fields).notes == ["the cells in question see 4 times the samples an update"]
    assert judged(grid(), metric="loss_last", at_most=2).notes == []
