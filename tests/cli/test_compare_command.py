"""`gradscope compare` over made-up runs: what it takes, prints, refuses and leaves with."""

import json
from pathlib import Path
from typing import Any

import pytest

from gradscope.core.status import Status
from gradscope.rundir.files import write_json
from gradscope.rundir.layout import SUMMARY
from tests.builders import RUN_ID, finished_events, preset_dict, run_directory
from tests.command_line import gradscope
from tests.made_summaries import MIB, made

pytestmark = pytest.mark.usefixtures("own_folder")

OUT = Path("traces")


def run(number: int, summary_fields: dict[str, Any] | None = None, **preset: Any) -> str:
    """A run directory whose summary is made up; returns its short id."""
    run_id = f"20270115T08000{number}Z-00000{number}"
    path = run_directory(OUT, run_id=run_id, preset=preset_dict(**preset))
    fields = {"created": number, "host": "here"} | (summary_fields or {})
    write_json(path / SUMMARY, made(run_id, **fields))
    return f"00000{number}"


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert gradscope("compare", *arguments) == code
    return capsys.readouterr().out


def row(text: str, label: str) -> list[str]:
    """The cells of the first row with this label."""
    line = next(line for line in text.splitlines() if line.strip().startswith(label))
    return [cell.strip() for cell in line.strip().removeprefix(label).split("  ") if cell.strip()]


def test_two_runs_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    smaller = {"peak_activations_bytes": 4 * MIB, "allocated_peak_bytes": 22 * MIB}
    a, b = run(1), run(2, {"step_ms": 125.0, "memory": smaller}, memory={"strategy": "checkpoint"})
    text = printed(capsys, a, b)
    assert text.splitlines()[0].startswith("A  quick 000001, the baseline: vit tiny")
    assert row(text, "memory.strategy") == ["standard", "checkpoint"]
    assert row(text, "step time") == ["100 ms", "125 ms", "+25 %", "undecided"]
    assert row(text, "peak memory") == ["32.0 MiB", "22.0 MiB", "-31 %", "better"]
    assert row(text, "last loss") == ["2", "2", "=", "same"]
    assert "what makes it: peak memory -10.0 MiB, most of it activations" in text
    assert "what makes it: mean step +25.0 ms, most of it backward" in text
    assert "undecided (one run a side; --repeat 5 decides): step time +25 %" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80


def test_conditions_leave_with_5_and_undecided_ones_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    a, b = run(1), run(2, {"step_ms": 125.0, "memory": {"allocated_peak_bytes": 40 * MIB}})
    conditions = ("--fail-if", "peak_memory_bytes > 5 MiB", "--fail-if", "step_time_ms > 5%")
    assert gradscope("compare", a, b, *conditions) == 5
    said = capsys.readouterr()
    assert said.err.splitlines() == [
        "failed: peak_memory_bytes > 5 MiB",
        "undecided: step_time_ms > 5%: one run a side; --repeat 5 decides",
    ]
    assert "failed  B  peak_memory_bytes > 5 MiB (+25.0 %)" in said.out
    assert gradscope("compare", a, b, "--fail-if", "step_time_ms > 5%") == 0


def test_a_condition_that_is_none_says_the_nearest_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert gradscope("compare", "x", "y", "--fail-if", "step_tim_ms > 5%") == 2
    assert "did you mean step_time_ms?" in capsys.readouterr().err


def test_several_runs_of_a_side_have_commas_between(capsys: pytest.CaptureFixture[str]) -> None:
    order = "abbaabbaab"
    ids: dict[str, list[str]] = {"a": [], "b": []}
    for number, side in enumerate(order):
        ids[side].append(run(number, {"step_ms": (100.0 if side == "a" else 150.0) + number / 10}))
    text = printed(capsys, ",".join(ids["a"]), ",".join(ids["b"]), "--fail-if", "step_time_ms>5%", code=5)
    assert row(text, "step time")[3] == "worse"
    assert "5 alternated pairs" in text
    found = json.loads(printed(capsys, ",".join(ids["a"]), ",".join(ids["b"]), "--json"))
    assert found["pairing"] == [None, "alternated"]
    assert found["differences"]["step_time_ms"][1]["verdict"] == "higher"


def test_a_preset_stands_for_its_runs_that_are_done(capsys: pytest.CaptureFixture[str]) -> None:
    run(1), run(2)
    run_directory(OUT, Status.FAILED, run_id="20270115T080009Z-000009", events=finished_events())
    other = run(3, name="other")
    found = json.loads(printed(capsys, "quick", other, "--json"))
    assert [column["runs"] for column in found["sides"]] == [
        ["20270115T080001Z-000001", "20270115T080002Z-000002"],
        ["20270115T080003Z-000003"],
    ]


def test_a_run_that_is_named_several_times_counts_once(capsys: pytest.CaptureFixture[str]) -> None:
    a, b = run(1), run(2)
    assert gradscope("compare", ",".join([a] * 5), b, "--json") == 0
    said, noted = capsys.readouterr()
    assert json.loads(said)["sides"][0]["runs"] == ["20270115T080001Z-000001"]
    assert noted == "20270115T080001Z-000001 is named several times on one side, and counts once\n"


def test_operators_are_of_single_runs_that_differ(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr("gradscope.cli.compare_traces.traces_of", lambda side: (side.name, [Path("trace")]))
    monkeypatch.setattr("gradscope.cli.compare_traces.compared", lambda *sides: asked.append(sides) or (None, ""))
    a, b, c = run(1), run(2), run(3)
    for sides in (("quick", a), (a, f"{b},{c}"), (a, a)):
        printed(capsys, *sides)
    assert asked == []
    printed(capsys, a, b)
    assert len(asked) == 1


def test_a_summary_file_is_enough(capsys: pytest.CaptureFixture[str]) -> None:
    write_json(Path("base.json"), made("old", step_ms=50.0))
    text = printed(capsys, "base.json", run(1), "--baseline", "B")
    assert row(text, "step time") == ["100 ms", "50.0 ms", "-50 %", "undecided"]
    Path("none.json").write_text("{}")
    assert gradscope("compare", "none.json", "base.json") == 2
    assert "none.json is no summary of a run" in capsys.readouterr().err


def test_many_sides_come_in_blocks_that_fit(capsys: pytest.CaptureFixture[str]) -> None:
    runs = [run(number, {"step_ms": 100.0 + number}) for number in range(1, 6)]
    text = printed(capsys, *runs)
    assert max(map(len, text.splitlines())) <= 80
    assert "E  quick 000005" in text
    assert gradscope("compare", *runs, runs[0], runs[0]) == 2
    assert "2 to 6 sides, not 7" in capsys.readouterr().err
    assert gradscope("compare", runs[0]) == 2


def test_markdown_keeps_foreign_text_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    a, b = run(1), run(2, model={"name": "py:x|<b>[link](y)"})
    text = printed(capsys, a, b, "--markdown")
    assert "| model.name | vit | py:x\\|&lt;b\\>\\[link\\](y) |" in text
    assert "| step time | 100 ms | 100 ms |" in text


def test_unlike_runs_are_said_and_not_gated(capsys: pytest.CaptureFixture[str]) -> None:
    a, b = run(1), run(2, {"device_name": "Other CPU"})
    assert "other hardware: Test CPU | Other CPU" in printed(capsys, a, b)
    assert gradscope("compare", a, b, "--fail-if", "peak_memory_bytes > 1%") == 2
    assert "--allow-unlike" in capsys.readouterr().err
    assert gradscope("compare", a, b, "--fail-if", "peak_memory_bytes > 1%", "--allow-unlike") == 0


def test_what_does_not_belong_together_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    a, b = run(1), run(2)
    for arguments, says in {
        (a, b, "-s", "run.seed=1"): "runs that are still to be made",
        (a, b, "--json", "--markdown"): "two outputs",
        (a, b, "--baseline", "C"): "none of the sides",
        (a, "nothing"): "no run 'nothing'",
        (a, b, "--threshold", "nan"): "--threshold",
        (a, b, "--fail-if", "step_time_ms > 1e999%"): "1e999 in",
        (a, b, "--fail-if", "step_time_ms > nan%"): "is no condition",
        (a, ","): "names no run",
    }.items():
        assert gradscope("compare", *arguments) == 2, arguments
        assert says in capsys.readouterr().err, arguments


def test_a_run_by_its_id_and_by_its_path(capsys: pytest.CaptureFixture[str]) -> None:
    run_directory(OUT, run_id=RUN_ID)
    found = json.loads(printed(capsys, RUN_ID, str(OUT / "quick" / RUN_ID), "--json"))
    assert found["sides"][0] == found["sides"][1]


@pytest.mark.parametrize("state", [Status.MEASURING, Status.FAILED, Status.STARTING, "lost", "bare"])
def test_runs_in_any_state_are_compared_as_far_as_that_goes(
    capsys: pytest.CaptureFixture[str], state: Status | str
) -> None:
    path = run_directory(OUT, state, run_id="20270115T080009Z-000009")
    other = run(1)
    for arguments in ((), ("--json",), ("--markdown",)):
        text = printed(capsys, other, str(path), *arguments)
        assert "not over" in text or "ended as" in text or "measured no step" in text


def test_a_grid_is_compared_cell_by_cell(capsys: pytest.CaptureFixture[str]) -> None:
    for root, factor in (("before", 1.0), ("after", 1.2)):
        for number, strategy in enumerate(("standard", "checkpoint", "accumulate", "checkpoint-accumulate")):
            for seed in (1, 2):
                run_id = f"20270115T0800{number}{seed}Z-0000{number}{seed}"
                preset = preset_dict(memory={"strategy": strategy}, run={"seed": seed})
                path = run_directory(Path(root), run_id=run_id, preset=preset)
                summary = made(run_id, 100 * (number + 1) * factor, strategy=strategy, seed=seed, host="here")
                write_json(path / SUMMARY, summary)
    text = printed(capsys, "before/quick", "after/quick", "--fail-if", "step_time_ms > 10%", code=5)
    assert "8 cells of equal settings are pairs" in text
    assert text.splitlines()[0] == "A  quick (8 runs), the baseline: vit tiny, adam, cpu, 4 different settings"
    assert row(text, "step time")[2:] == ["+20 % ±0.0", "worse"]
