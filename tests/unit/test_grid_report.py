"""What a report says of a grid with known numbers: axes, pivots, Pareto front, effects, choices, budgets."""

import math

import msgspec
import pytest

from gradscope.analysis.axes import find_axes
from gradscope.analysis.choices import choose, contenders
from gradscope.analysis.curves import Curve, loss_at, of_row, thinned
from gradscope.analysis.effects import effects
from gradscope.analysis.fairness import budget
from gradscope.analysis.grid_report import report
from gradscope.analysis.pareto import front
from gradscope.analysis.pivot import pivot
from gradscope.analysis.results import Row
from gradscope.config.load import load_preset
from tests.made_grid import MIB, grid, row

OBJECTIVES = ["loss_last", "step_time_ms", "peak_memory_bytes"]
RESOURCES = {"time": "step_time_ms", "memory": "peak_memory_bytes"}


def test_axes_are_the_settings_that_vary_together() -> None:
    axes = find_axes(grid())
    assert [(axis.title, axis.labels) for axis in axes] == [
        ("model", ("vit", "llama")),
        ("optimizer", ("sgd", "adam")),
        ("strategy", ("standard", "checkpoint", "accumulate")),
    ]
    assert axes[1].keys == ("optimizer.name", "optimizer.lr")
    assert axes[2].keys == ("memory.strategy", "memory.accumulate")
    assert [axis.decides_loss for axis in axes] == [True, False, False]


def test_values_that_share_a_name_are_told_apart_by_more() -> None:
    four, eight = (row(strategy="accumulate", axes={"memory.accumulate": k}) for k in (4, 8))
    (axis,) = find_axes(
        [
            msgspec.structs.replace(one, axes={k: v for k, v in one.axes.items() if k.startswith("memory")})
            for one in (row(), four, eight)
        ]
    )
    assert axis.labels == ("standard", "accumulate accumulate=4", "accumulate accumulate=8")


def test_independent_settings_of_one_table_are_two_axes() -> None:
    rows = [row(axes={"optimizer.name": name, "optimizer.lr": lr}) for name in ("sgd", "adam") for lr in (0.1, 0.2)]
    assert [axis.keys for axis in find_axes(rows)] == [("optimizer.name",), ("optimizer.lr",)]


def test_a_presets_sweep_says_which_settings_are_one_axis() -> None:
    preset = load_preset("grid-tiny")
    rows = [
        row("vit", axes={"data.name": "shapes", "data.batch_size": 4}),
        row("llama", axes={"data.name": "text", "data.batch_size": 8}),
    ]
    assert find_axes(rows, preset)[0].keys == ("model.name", "data.name", "data.batch_size")


def test_a_pivot_has_optimizers_across_and_marks_the_best_of_each_model() -> None:
    found = pivot(grid(), "loss_last", find_axes(grid()))
    assert (found.down, found.across, found.heads) == (["model", "strategy"], "optimizer", ["sgd", "adam"])
    assert found.labels[0] == ["vit", "standard"]
    values = [[entry.figure.value for entry in line if entry] for line in found.entries]
    assert values == [[2, 1], [2, 1], [1, 0.5], [4, 5], [4, 5], [4, 2.5]]
    best = [
        (line, place)
        for line, entries in enumerate(found.entries)
        for place, one in enumerate(entries)
        if one and one.best
    ]
    assert best == [(2, 1), (5, 1)]


def test_a_pivot_says_what_became_of_cells_without_a_value() -> None:
    rows = grid(
        vit_sgd_standard={"status": "oom", "reason": "memory was full"}, vit_adam_standard={"status": "missing"}
    )
    first, second = pivot(rows, "loss_last", find_axes(rows)).entries[0]
    assert first is not None
    assert second is not None
    assert (first.figure.value, first.state, first.reason) == (None, "oom", "memory was full")
    assert second.state == "missing"
    assert pivot([one for one in rows if one.status != "oom"], "loss_last", find_axes(rows)).entries[0][0] is None


def test_a_pivot_is_over_repeats() -> None:
    rows = [row(seed=seed, loss=loss) for seed, loss in enumerate((3.0, 1.0, 2.5))]
    rows.append(row(seed=3, status="failed"))
    ((entry,),) = pivot(rows, "loss_last", []).entries
    assert entry is not None
    assert (entry.figure.value, entry.figure.low, entry.figure.high, entry.figure.runs) == (2.5, 1.0, 3.0, 3)
    assert (entry.planned, entry.state) == (4, "3 of 4 done")


def test_the_front_is_what_nothing_beats_in_all_respects() -> None:
    points = [
        {"loss_last": 1.0, "samples_per_s": 10.0},
        {"loss_last": 2.0, "samples_per_s": 20.0},
        {"loss_last": 2.0, "samples_per_s": 15.0},  # beaten by the one before
        {"loss_last": 1.0, "samples_per_s": 10.0},  # equal to the first
        {"loss_last": None, "samples_per_s": 99.0},
    ]
    assert front(points, ["loss_last", "samples_per_s"]) == [0, 1, 3]
    assert front(points, []) == []


def test_fronts_are_of_one_model_each() -> None:
    found = contenders(grid(), find_axes(grid()), OBJECTIVES)
    assert [(one.group, one.name) for one in found if one.on_front] == [
        ("vit", "sgd standard"),
        ("vit", "sgd checkpoint"),
        ("vit", "adam standard"),
        ("vit", "adam checkpoint"),
        ("vit", "adam accumulate"),
        ("llama", "sgd standard"),
        ("llama", "sgd checkpoint"),
        ("llama", "adam accumulate"),
    ]


def test_effects_are_geometric_means_of_paired_ratios() -> None:
    found = effects(grid(), find_axes(grid()), ["step_time_ms"])
    one = next(one for one in found if (one.group, one.value) == ("vit", "checkpoint"))
    assert (one.axis, one.baseline, one.pairs, one.planned) == ("memory.strategy", "standard", 2, 2)
    assert one.ratio == pytest.approx(math.sqrt(1.2 * 1.5))
    half = 12.7062 * math.log(1.5 / 1.2) / 2  # of two values: t(1, 97.5 %) * |a - b| / 2
    assert one.low == pytest.approx(math.sqrt(1.8) * math.exp(-half), rel=1e-4)
    assert one.high == pytest.approx(math.sqrt(1.8) * math.exp(half), rel=1e-4)
    assert (one.least, one.most) == (pytest.approx(1.2), pytest.approx(1.5))
    assert {one.axis for one in found} == {"memory.strategy", "optimizer.name"}  # models compare with nothing


def test_effects_leave_out_pairs_that_lack_a_side() -> None:
    rows = grid(vit_sgd_checkpoint={"status": "oom"}, llama_sgd_standard={"device_name": "Other"})
    found = {(one.group, one.value): one for one in effects(rows, find_axes(rows), ["step_time_ms"])}
    one = found["vit", "checkpoint"]
    assert (one.pairs, one.planned, one.low) == (1, 2, None)
    assert one.ratio == pytest.approx(1.5)
    assert found["llama", "checkpoint"].pairs == 1


def test_times_of_disturbed_runs_are_marked_and_in_no_effect() -> None:
    rows = grid(vit_sgd_checkpoint={"values": {"waited_pct": 60.0}}, vit_adam_standard={"values": {"waited_pct": 9.0}})
    axes = find_axes(rows)
    found = {(one.metric, one.value): one for one in effects(rows, axes, OBJECTIVES) if one.group == "vit"}
    assert found["step_time_ms", "checkpoint"].ratio == pytest.approx(1.5)
    assert found["step_time_ms", "checkpoint"].pairs == 1
    assert found["peak_memory_bytes", "checkpoint"].pairs == 2
    marks = {
        metric: [one.disturbed for line in pivot(rows, metric, axes).entries for one in line if one]
        for metric in ("step_time_ms", "loss_last")
    }
    assert marks["step_time_ms"].index(True) == 2
    assert (sum(marks["step_time_ms"]), sum(marks["loss_last"])) == (1, 0)


def test_no_disturbed_run_is_called_the_fastest() -> None:
    rows = [row("vit", "sgd", loss=1.0, values={"waited_pct": 50.0}), row("vit", "adam", loss=1.04, step_ms=90.0)]
    assert chosen(rows) == [("", "sgd", ["best", "memory"]), ("", "adam", ["time"])]
    equal = [row("vit", "sgd", values={"waited_pct": 50.0}), row("vit", "sgd", "checkpoint", step_ms=90.0, peak_mib=20)]
    assert chosen(equal) == [("", "standard", ["best"]), ("", "checkpoint", ["time", "memory"])]


def test_seeds_are_averaged_before_cells_are_pairs() -> None:
    rows = [
        one
        for seed in (0, 1)
        for optimizer, ms in (("sgd", 110.0), ("adam", 130.0))
        for one in (
            row("vit", optimizer, seed=seed),
            row("vit", optimizer, "checkpoint", seed=seed, step_ms=ms * (1 + seed)),
        )
    ]
    one = next(one for one in effects(rows, find_axes(rows), ["step_time_ms"]) if one.value == "checkpoint")
    assert (one.pairs, one.planned) == (2, 2)
    assert one.least == pytest.approx(1.1 * math.sqrt(2))
    alone = [one for one in rows if one.axes["optimizer.name"] == "sgd"]
    one = next(one for one in effects(alone, find_axes(alone), ["step_time_ms"]) if one.value == "checkpoint")
    assert (one.pairs, one.planned, one.least, one.most) == (2, 2, pytest.approx(1.1), pytest.approx(2.2))


def chosen(rows: list[Row], metric: str = "loss_last") -> list[tuple[str, str, list[str]]]:
    found = choose(contenders(rows, find_axes(rows), OBJECTIVES), metric, RESOURCES)
    return [(one.contender.group, one.contender.name, one.roles) for one in found]


def test_choices_are_the_best_at_equal_samples_the_thriftiest_near_it_and_the_best_of_all() -> None:
    assert chosen(grid()) == [
        ("vit", "adam standard", ["best", "time"]),
        ("vit", "adam checkpoint", ["memory"]),
        ("vit", "adam accumulate", ["overall"]),
        ("llama", "sgd standard", ["best", "time"]),
        ("llama", "sgd checkpoint", ["memory"]),
        ("llama", "adam accumulate", ["overall"]),
    ]


def test_what_is_no_clear_gain_gives_no_other_choice() -> None:
    rows = [row("vit", "sgd", loss=1.0), row("vit", "adam", loss=1.04, step_ms=97.0, peak_mib=39)]
    assert chosen(rows) == [("", "sgd", ["best", "time", "memory"])]


def test_choices_by_another_metric() -> None:
    assert chosen(grid(), "peak_memory_bytes")[0] == ("vit", "sgd checkpoint", ["best", "time"])


def test_the_budget_says_what_was_equal_and_what_was_not() -> None:
    found = budget(grid(), find_axes(grid()))
    assert (found.kinds, found.equal, found.grown) == (["updates"], ["updates"], {"accumulate": 4.0})
    (sentence,) = found.unequal
    assert "4 times the samples an update, since accumulation in `grow` mode" in sentence
    plain = [one for one in grid() if one.axes["memory.strategy"] != "accumulate"]
    assert budget(plain, find_axes(plain)).equal == ["updates", "samples"]
    unequal = [row(), row(strategy="checkpoint", updates=7)]
    assert budget(unequal, find_axes(unequal)).unequal[-1].startswith("no budget is equal")


def test_losses_can_be_read_at_equal_samples() -> None:
    found = report("grid", grid())
    (equal,) = found.equal
    assert (equal.budget, equal.spent) == ("samples", {"vit": 80, "llama": 80})
    # loss falls from 10 to 1 times its last in 10 steps of 8 samples, of 32 where it accumulates: 80 are 2 of those
    assert [entry.figure.value for entry in equal.table.entries[0] if entry] == [2.0, 1.0]
    assert [entry.figure.value for entry in equal.table.entries[2] if entry] == [9.0, 4.5]


def test_a_loss_is_that_of_the_last_step_within_a_budget() -> None:
    curve = Curve(step=[1, 2, 3], samples=[8, 16, 24], seconds=[0.5, 1.0, 1.5], energy=[], loss=[3.0, None, 1.0])
    assert [loss_at(curve, "seconds", spent) for spent in (0.4, 0.5, 1.2, 9.0)] == [None, 3.0, None, 1.0]
    assert loss_at(curve, "energy", 1.0) is None
    assert thinned(5, 3) == [0, 2, 4]
    assert of_row(row(updates=2)) == Curve(step=[1, 2], samples=[8, 16], loss=[4.0, 2.0])


def test_a_report_ranks_by_time_where_nothing_has_a_loss() -> None:
    found = report("grid", [row(loss=None), row(strategy="checkpoint", loss=None, step_ms=120.0)])
    assert found.metric == "step_time_ms"
    assert found.objectives == ["step_time_ms", "peak_memory_bytes"]


def test_energy_is_an_objective_where_it_was_measured() -> None:
    rows = [msgspec.structs.replace(one, values=one.values | {"energy_per_step_j": 3.0}) for one in grid()]
    found = report("grid", rows)
    assert found.objectives[-1] == "energy_per_step_j"
    assert found.choices[0].roles == ["best", "time", "energy"]


def test_a_grid_of_nothing_but_missing_cells_has_a_report() -> None:
    found = report("grid", [row(status="missing"), row("llama", status="missing")])
    assert (found.counts, found.choices, found.machines, found.budget.equal) == ({"missing": 2}, [], [], [])


def test_sizes_are_of_the_rows() -> None:
    assert grid()[0].value("peak_memory_bytes") == 40 * MIB
    assert row(status="cancelled").value("loss_last") is None
