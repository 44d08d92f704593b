"""Comparisons of made-up runs: pairs, figures, contributions that add up, unlike things, conditions for CI."""

import msgspec
import pytest

from gradscope.analysis.comparison import Comparison, Pairing, compare, pair
from gradscope.analysis.contributions import explain_memory, explain_time
from gradscope.analysis.gate import Outcome, evaluate, parse
from gradscope.analysis.quantities import QUANTITIES, shown_value
from gradscope.analysis.unlike import Side, Taken, flattened
from gradscope.analysis.verdict_runs import Verdict
from gradscope.core.status import Status
from gradscope.errors import GradscopeError
from tests.made_summaries import MIB, alternated, made, side

CHECKPOINT = {"strategy": "checkpoint"}
SLOWER = {"data": 0.08, "forward": 0.24, "backward": 0.52, "optimizer": 0.12, "other": 0.04}


def single(**fields: object) -> Comparison:
    return compare([side("A", made("a")), side("B", made("b", **fields))])  # type: ignore[arg-type]


# pairs and figures


def test_single_runs_are_compared_as_far_as_that_goes() -> None:
    found = single(step_ms=125.0, memory={"peak_activations_bytes": 4 * MIB, "allocated_peak_bytes": 22 * MIB})
    assert found.pairing == [None, Pairing.SINGLE]
    step, peak = found.differences["step_time_ms"][1], found.differences["peak_memory_bytes"][1]
    assert step is not None
    assert peak is not None
    assert (step.verdict, step.relative) == (Verdict.UNDECIDED, 0.25)
    assert (peak.verdict, peak.absolute, peak.good) == (Verdict.LOWER, -10 * MIB, True)
    figure = found.figures["step_time_ms"][0]
    # four steps of 90, 100, 100, 110 ms: p5 is 0.15 of the way from the first to the second
    assert (figure.value, figure.low, figure.high) == (100, pytest.approx(91.5), pytest.approx(108.5))


def test_runs_made_in_turn_are_pairs() -> None:
    a, b = alternated([100, 110, 90, 105, 95], [150, 165, 135, 157.5, 142.5])
    kind, pairs = pair(a, b)
    assert kind is Pairing.ALTERNATED
    assert [(one.summary.run_id, other.summary.run_id) for one, other in pairs] == [
        (f"a{i}", f"b{i}") for i in range(5)
    ]
    step = compare([a, b]).differences["step_time_ms"][1]
    assert step is not None
    assert (step.verdict, step.runs, step.paired) == (Verdict.HIGHER, 5, True)
    assert step.relative == pytest.approx(0.5)


def test_runs_made_one_side_after_the_other_are_no_pairs() -> None:
    a = side("A", *(made(f"a{i}", created=i) for i in range(5)))
    b = side("B", *(made(f"b{i}", created=10 + i) for i in range(5)))
    assert pair(a, b) == (Pairing.APART, ())
    unknown = side("C", *(made(f"c{i}", created=None) for i in range(5)))
    assert pair(a, unknown) == (Pairing.APART, ())


def test_several_runs_are_told_by_their_mean_and_range() -> None:
    a, b = alternated([100, 400], [100, 400])
    figure = compare([a, b]).figures["step_time_ms"][0]
    assert (figure.value, figure.low, figure.high, figure.runs) == (pytest.approx(200), 100, 400, 2)


def test_grids_are_paired_cell_by_cell() -> None:
    def grid(name: str, factor: float) -> Side:
        strategies = ("standard", "checkpoint", "accumulate", "x", "y")
        runs = [made(f"{name}{i}", 100 * (i + 1) * factor, strategy=word) for i, word in enumerate(strategies)]
        return side(name, *runs)

    found = compare([grid("A", 1.0), grid("B", 1.2)])
    step = found.differences["step_time_ms"][1]
    assert found.pairing[1] is Pairing.CELLS
    assert step is not None
    assert (step.verdict, step.relative) == (Verdict.HIGHER, pytest.approx(0.2))
    assert not [one for one in found.unlike if one.code == "mixed"]


def test_figures_of_grids_are_of_the_cells_that_all_have_and_equal_sizes_are_the_same() -> None:
    def grid(name: str, strategies: str, loss: float) -> Side:
        sizes = {word: {"allocated_peak_bytes": (30 + ord(word)) * MIB} for word in strategies}
        return side(name, *(made(f"{name}{w}", strategy=w, memory=sizes[w], loss=loss) for w in strategies))

    found = compare([grid("A", "pqrz", 2.0), grid("B", "qpy", 3.0), grid("C", "pxq", 2.0)])
    assert (found.cells, found.pairing[1:]) == (2, [Pairing.CELLS, Pairing.CELLS])
    assert [column.runs for column in found.sides] == [["Ap", "Aq"], ["Bp", "Bq"], ["Cp", "Cq"]]
    peak, figures = found.differences["peak_memory_bytes"][1], found.figures["peak_memory_bytes"]
    assert peak is not None
    assert peak.verdict is Verdict.SAME
    assert figures[0] == figures[1]
    assert figures[0].runs == 2
    assert compare([grid("A", "pq", 2.0), grid("B", "xy", 2.0)]).cells is None


def test_any_side_can_be_the_baseline() -> None:
    sides = [side(name, made(name, ms)) for name, ms in (("A", 100), ("B", 50), ("C", 200))]
    found = compare(sides, baseline=1)
    steps = found.differences["step_time_ms"]
    assert [None if one is None else one.relative for one in steps] == [1.0, None, 3.0]
    assert (found.time[1], found.pairing[1]) == (None, None)


def test_a_comparison_can_be_read_back() -> None:
    found = single(step_ms=125.0)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Comparison) == found


# losses


def test_losses_of_equal_seeds_on_a_cpu_are_exact() -> None:
    differences = single(loss=1.5).differences["loss_last"]
    assert differences[1] is not None
    assert (differences[1].verdict, differences[1].exact) == (Verdict.LOWER, True)
    for other in ({"seed": 8}, {"threads": 1}, {"torch": "2.14.0"}, {"host": "there"}, {"device": "cuda"}):
        found = single(loss=1.5, **other).differences["loss_last"][1]
        assert found is not None
        assert found.verdict is Verdict.UNDECIDED, other


def test_an_exact_loss_that_hardly_differs_is_neither_better_nor_worse() -> None:
    found = single(loss=2.001).differences["loss_last"][1]
    assert found is not None
    assert (found.verdict, found.exact, found.beyond_noise, found.good) == (Verdict.NOISE, True, True, None)


def test_losses_of_other_models_and_data_are_not_compared() -> None:
    found = single(model="llama").differences["loss_last"][1]
    assert found is not None
    assert (found.verdict, found.reason) == (Verdict.UNDECIDED, "losses of different models")
    a, b = (side(name, made(name), settings={"data.name": name}) for name in ("shapes", "text"))
    found = compare([a, b]).differences["loss_last"][1]
    assert found is not None
    assert found.reason == "losses over different data"


# contributions


def test_phases_add_up_to_the_difference_of_the_mean_step() -> None:
    found = explain_time([made(step_ms=100)], [made(step_ms=125, shares=SLOWER)])
    assert found is not None
    assert (found.baseline, found.value, found.difference) == (100, 125, 25)
    parts = {part.name: part.difference for part in found.parts}
    # 0.52 of 125 ms are 65 ms, 25 more than 0.4 of 100; all others are as long as before
    assert parts == {
        "data": pytest.approx(0),
        "forward": pytest.approx(0),
        "backward": pytest.approx(25),
        "optimizer": pytest.approx(0),
        "other": pytest.approx(0),
    }
    assert found.largest is not None
    assert found.largest.name == "backward"


def test_categories_add_up_to_the_difference_of_the_peak() -> None:
    smaller = {"peak_activations_bytes": 4 * MIB, "allocated_peak_bytes": 21 * MIB, "optimizer_state_bytes": None}
    found = explain_memory([made()], [made(memory=smaller)])
    assert found is not None
    assert found.difference == -11 * MIB == sum(part.difference or 0 for part in found.parts)
    # 4 + 4 + 8 + 1 + 14 of 32: 1 MiB is in no category; then 4 + 4 + 1 + 4 of 21: 8 MiB
    assert {part.name: (part.difference or 0) / MIB for part in found.parts} == {
        "parameters": 0,
        "gradients": 0,
        "optimizer_state": -8,
        "inputs": 0,
        "activations": -10,
        "rest": 7,
    }
    assert found.largest is not None
    assert found.largest.name == "activations"


def test_what_was_not_measured_explains_nothing() -> None:
    assert explain_memory([made()], [made(memory={"peak_activations_bytes": None})]) is None
    assert explain_time([made()], [made(steps=0)]) is None


# unlike things


def test_settings_that_differ_are_what_is_compared() -> None:
    found = single(**CHECKPOINT)  # type: ignore[arg-type]
    assert [(one.key, one.values) for one in found.changed] == [("memory.strategy", ["standard", "checkpoint"])]
    assert (found.unlike, found.held_equal) == ([], ["updates", "samples"])


def test_settings_come_from_presets_where_there_are_any() -> None:
    one = {"name": "x", "data": {"batch_size": 8, "options": {"a": 1, "b": 2}}, "run": {"seed": 1, "compile": False}}
    other = {"name": "y", "data": {"batch_size": 4, "options": {"a": 1, "b": 3}}, "run": {"seed": 2, "compile": True}}
    a, b = (side(name, made(name), settings=flattened(preset)) for name, preset in (("A", one), ("B", other)))
    assert [(found.key, found.values) for found in compare([a, b]).changed] == [
        ("data.batch_size", ["8", "4"]),
        ("data.options.b", ["2", "3"]),
        ("run.compile", ["false", "true"]),
    ]


def test_unlike_circumstances_are_said_and_stop_a_gate_where_they_must() -> None:
    found = single(device_name="Other CPU", torch="2.14.0", threads=1, batch_rows=4, steps=2, host="there")
    told = {one.code: one.stops_gate for one in found.unlike}
    assert told == {
        "device_name": True,
        "threads": True,
        "host": False,
        "versions": False,
        "batch_rows": False,
        "updates": False,
        "samples": False,
    }
    assert found.unlike[0].message == "other hardware: Test CPU | Other CPU"
    assert found.held_equal == []


def test_runs_that_are_not_done_and_mixed_sides_are_said() -> None:
    a = side("A", made("a", status=Status.OOM), made("b", **CHECKPOINT))
    found = compare([a, side("B", made("c", status=Status.MEASURING, steps=0))])
    assert [one.message for one in found.unlike] == [
        "A: runs of 2 different settings, taken as repeats of each other",
        "a ended as oom: what it measured counts",
        "c is not over",
        "c measured no step",
    ]


# conditions


def outcomes(text: str, *sides: Side) -> list[Outcome]:
    return [one.outcome for one in evaluate([parse(text)], compare(sides))]


def test_conditions_on_exact_sizes_decide_with_one_run_a_side() -> None:
    a, b = side("A", made("a")), side("B", made("b", memory={"allocated_peak_bytes": 40 * MIB}))
    assert outcomes("peak_memory_bytes > 5 MiB", a, b) == [Outcome.FAILED]
    assert outcomes("peak_memory_bytes > 8 MiB", a, b) == [Outcome.PASSED]
    assert outcomes("peak_memory_bytes >= 8 MiB", a, b) == [Outcome.FAILED]
    assert outcomes("peak_memory_bytes>24%", a, b) == [Outcome.FAILED]
    assert outcomes("peak_memory_bytes>25 %", a, b) == [Outcome.PASSED]
    assert outcomes("peak_memory_bytes < -10%", b, a) == [Outcome.FAILED]
    assert outcomes("peak_memory_bytes > 0", a, b, a) == [Outcome.FAILED, Outcome.PASSED]


def test_conditions_on_times_need_runs() -> None:
    one = side("A", made("a", 100)), side("B", made("b", 150))
    [judged] = evaluate([parse("step_time_ms > 5%")], compare(one))
    assert (judged.outcome, judged.reason) == (Outcome.UNDECIDED, "one run a side; --repeat 5 decides")
    five = alternated([100, 110, 90, 105, 95], [150, 165, 135, 157.5, 142.5])
    assert outcomes("step_time_ms > 5%", *five) == [Outcome.FAILED]
    assert outcomes("step_time_ms > 60%", *five) == [Outcome.PASSED]
    assert outcomes("step_time_ms > 40 ms", *five) == [Outcome.FAILED]
    assert outcomes("step_time_ms > 0.1 s", *five) == [Outcome.PASSED]
    assert outcomes("samples_per_s < -5%", *five) == [Outcome.FAILED]
    noisy = alternated([100, 120, 90, 110, 105], [114, 111, 128, 105, 118])
    [judged] = evaluate([parse("step_time_ms > 5%")], compare(noisy))
    assert (judged.outcome, judged.reason) == (Outcome.UNDECIDED, "beyond the limit, but not beyond noise")


def test_a_limit_below_the_threshold_holds_all_the_same() -> None:
    sides = alternated([100] * 5, [101, 101.01, 101, 101.01, 101])
    assert outcomes("step_time_ms > 0.5%", *sides) == [Outcome.FAILED]


def test_what_is_not_measured_is_undecided() -> None:
    assert outcomes("power_w > 5%", side("A", made("a")), side("B", made("b"))) == [Outcome.UNDECIDED]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("step_time > 5%", "did you mean step_time_ms?"),
        ("step_time_ms", "for example"),
        ("step_time_ms > ", "for example"),
        ("step_time_ms > x", "for example"),
        ("step_time_ms > 5% or 3", "for example"),
        ("step_time_ms > 5 MiB", "allowed: %, us, ms or s"),
        ("loss_last > 5 ms", "allowed: % or no unit"),
        ("nothing > 5", "there are loss_last"),
    ],
)
def test_what_is_no_condition_is_refused_with_what_would_be_one(text: str, says: str) -> None:
    with pytest.raises(GradscopeError) as caught:
        parse(text)
    assert says in caught.value.hint
    assert caught.value.exit_code == 2


# names


def test_quantities_are_told_with_their_units() -> None:
    shown = {
        name: shown_value(QUANTITIES[name], 1500.0) for name in ("step_time_ms", "peak_memory_bytes", "tokens_per_s")
    }
    assert shown == {"step_time_ms": "1500 ms", "peak_memory_bytes": "1.46 KiB", "tokens_per_s": "1.50 k/s"}
    assert all(shown_value(quantity, None) == "n/a" for quantity in QUANTITIES.values())


def test_every_quantity_reads_a_summary_with_nothing_in_it() -> None:
    bare = made(steps=0)
    assert all(quantity.value(bare) is None or quantity.exactness == "exact" for quantity in QUANTITIES.values())
    assert all(quantity.within(bare) is None for quantity in QUANTITIES.values())
    assert Taken(summary=bare).settings == {}
