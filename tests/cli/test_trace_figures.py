"""`gradscope trace`: what stands in its tables is what it is called, and adds up."""

import json
from pathlib import Path

import pytest

from gradscope.core.text import display_width
from tests.command_line import gradscope_trace
from tests.trace_builder import chrome_event, write_chrome

pytestmark = pytest.mark.usefixtures("own_folder")

CASES = Path(__file__).parent.parent / "cases" / "traces"
STEPPED = ["nccl.json.gz", "rank0_of_many.json.gz", "rocm_mi250.json.gz", "backward_thread.json"]


def lines_of(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> list[str]:
    assert gradscope_trace(*arguments) == 0
    return capsys.readouterr().out.splitlines()


def step_rows(lines: list[str]) -> list[dict[str, float]]:
    """Return each row of the steps section by the heads over it; remarks are left out."""
    start = next(place for place, line in enumerate(lines) if line.startswith("steps "))
    heads = lines[start].split()[1:]
    rows = []
    for line in lines[start + 1 :]:
        words = line.replace(" ms", "").replace(" %", "").split()
        rows.append(dict(zip(heads, map(float, words[1 : len(heads) + 1]), strict=True)))
    return rows


@pytest.mark.parametrize("name", STEPPED)
def test_the_parts_of_a_step_add_up_to_its_time(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = lines_of(capsys, CASES / "real" / name, "--view", "steps")
    assert max(map(display_width, lines)) <= 80
    for row in step_rows(lines):
        parts = [value for head, value in row.items() if head not in ("time", "busy")]
        assert sum(parts) == pytest.approx(row["time"], rel=0.01)


def test_a_column_of_steps_stands_only_where_something_is_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    (row, *_) = step_rows(lines_of(capsys, CASES / "real" / "nccl.json.gz", "--view", "steps"))
    assert list(row) == ["time", "busy", "kernels", "comm.", "copies", "runtime", "operators", "other"]
    (row, *_) = step_rows(lines_of(capsys, CASES / "base.json", "--view", "steps"))
    assert row == {"time": 1.0, "operators": 0.3, "other": 0.7}


def test_where_there_is_no_room_the_parts_of_the_host_stand_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = {"pid": 0, "tid": 7}
    events = [
        chrome_event("ProfilerStep#0", "user_annotation", 0, 1234),
        chrome_event("enumerate(DataLoader)#X.__next__", "user_annotation", 0, 101),
        chrome_event("aten::mm", "cpu_op", 101, 102),
        chrome_event("cudaLaunchKernel", "cuda_runtime", 203, 103, args={"correlation": 1}),
        chrome_event("k", "kernel", 306, 104, args={"correlation": 1}, **place),
        chrome_event("ncclDevKernel_X", "kernel", 410, 105, **place),
        chrome_event("Memcpy HtoD", "gpu_memcpy", 515, 106, **place),
        chrome_event("Memset", "gpu_memset", 621, 107, **place),
    ]
    lines = lines_of(capsys, write_chrome(tmp_path / "all.json", events), "--view", "steps")
    (row,) = step_rows(lines)
    assert max(map(display_width, lines)) <= 80
    assert {head: value for head, value in row.items() if head != "time"} == {
        "kernels": 0.104,
        "comm.": 0.105,
        "copies": 0.213,
        "host": 0.306,
        "other": 0.506,
    }


def test_the_rank_of_a_single_trace_is_what_it_says_and_else_0(capsys: pytest.CaptureFixture[str]) -> None:
    for name, rank in (("p06_no_rank.json", 0), ("base.json", 0), ("real/cpu_only_rank34.pt.trace.json.gz", 34)):
        document = json.loads(
            "\n".join(lines_of(capsys, CASES / name, "--rank", str(rank), "--view", "steps", "--json"))
        )
        assert document["rank"] == rank
    assert gradscope_trace(CASES / "base.json", "--rank", "1") == 2
    assert "the ranks are 0" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["base.json", "p11_mixed_types.json", "p14_step_on_two_threads.json"])
def test_shares_of_operators_are_of_the_steps(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = "\n".join(lines_of(capsys, CASES / name, "--view", "operators"))
    assert "  aten::mm                                        3   0.600 ms  20.0 %  0.600 ms" in text
    assert "its own name counts in both" in " ".join(text.split())


def test_a_step_alone_is_what_shares_are_of(capsys: pytest.CaptureFixture[str]) -> None:
    text = "\n".join(lines_of(capsys, CASES / "p14_step_on_two_threads.json", "--view", "operators", "--step", "1"))
    assert "0.200 ms  20.0 %  0.200 ms" in text


def test_a_kernel_that_outlasts_the_trace_has_its_stamped_time_beside(capsys: pytest.CaptureFixture[str]) -> None:
    lines = lines_of(capsys, CASES / "p10_long_kernel.json", "--view", "kernels,operators")
    assert any(" ".join(line.split()) == "k_mm 3 1.80 ms 901 ms 100.0 % 0.600 ms no" for line in lines)
    assert any(line.startswith("  aten::mm ") and line.endswith("1.80 ms") for line in lines)
    assert "stamped" not in "".join(lines_of(capsys, CASES / "base_gpu.json", "--view", "kernels"))
