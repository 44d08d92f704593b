"""The summary as text, with which a run ends: 80 columns, nothing foreign interpreted, ASCII where it must be."""

import re
from pathlib import Path

import msgspec
import pytest

from gradscope.analysis.summary import compute, load_summary
from gradscope.core.events import Stage, Totals
from gradscope.core.status import Status
from gradscope.core.summary import Remark
from gradscope.export.summary_text import render
from gradscope.rundir.handle import RunHandle
from tests.builders import MIB, RUN_ID, EventBuilder, finished_events, preset_dict, run_directory, sample

TRACE = f"{RUN_ID}-w1.1800000000000.pt.trace.json.gz"


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    samples = [
        sample(2000 + at, host={"tree_cpu_pct": 100.0 + at, "worker_resident_bytes": 300 * MIB})
        for at in range(10, 101, 10)
    ]
    run_dir = run_directory(tmp_path / "traces", events=finished_events(trace=TRACE), samples=samples)
    (run_dir / TRACE).write_bytes(b" " * 2048)
    return run_dir


def test_it_answers_in_order_what_happened_what_it_cost_where_it_went_and_whether_it_is_right(run_dir: Path) -> None:
    text = render(load_summary(run_dir), run_dir=run_dir, unicode=True)
    assert (
        text
        == f"""\
quick · vit tiny · adam · standard                                          done
4 steps measured after 2 of warm-up, 32 samples in 0.10 s
cpu · Test CPU · 2 threads · fp32 · 1.00 k parameters · batch 8

cost
  loss             4 → 2   lowest 2
  step time        25.0 ms median   p95 38.5 ms   IQR 15.0 ms   n 4
  throughput       320 samples/s   4.00 k tokens/s   40 steps/s
  peak memory      22.9 KiB   torch's allocator, one memory step
  resident         +100 MiB since the worker's start, largest sampled
  cpu              155 % mean   p5 114   p95 196   n 10   100 % = a core
  gpu busy         n/a   the run is on the CPU
  energy           n/a
  compute          40.0 MFLOP/s   1.00 MFLOP a gradient, 1.30 MFLOP executed
  gradscope's own  0.50 % of the measured time

where time went                                    share      median         p95
  data             ██▌                            10.0 %     2.50 ms     3.85 ms
  forward          ███████▌                       30.0 %     7.50 ms     11.5 ms
  backward         ██████████                     40.0 %     10.0 ms     15.4 ms
  optimizer        ███▊                           15.0 %     3.75 ms     5.77 ms
  other            █▎                              5.0 %     1.25 ms     1.92 ms

where memory went                                  share     largest
  parameters       ████▎                          17.1 %    3.91 KiB
  buffers          ▏                               0.2 %        40 B
  gradients        ████▎                          17.1 %    3.91 KiB
  optimizer state  ████████▌                      34.1 %    7.81 KiB
  inputs           ▍                               1.7 %       400 B
  activations      ███████▌                       29.9 %    6.84 KiB
    of them saved  5.86 KiB kept for backward at the end of forward
  peak by phase    forward 18.1 KiB   backward 22.9 KiB   optimizer 16.1 KiB

gradient audit: passed, error 0.0e+00 of at most 1e-06

files
  run              traces/quick/{RUN_ID}
  trace            {TRACE}
                   2 steps from step 8, 2.00 KiB
                   300 ms a step when profiled, 25.0 ms measured
  open it          gradscope tensorboard traces
                   or load the file in https://ui.perfetto.dev"""
    )


@pytest.mark.parametrize("state", [*Status, "lost", "bare"])
def test_no_line_is_wider_than_80_columns(tmp_path: Path, state: Status | str) -> None:
    long = "CUDA out of memory while a very large tensor of 12.5 GiB was asked for, with 3.1 GiB free of 23.6 GiB " * 3
    run_dir = run_directory(tmp_path, state, reason=long)
    summary = load_summary(run_dir)
    said = msgspec.structs.replace(summary, remarks=[Remark(code="x", message=long)])
    assert max(map(len, render(said, run_dir=None, unicode=True).splitlines())) <= 80


def test_a_terminal_without_utf8_gets_ascii(run_dir: Path) -> None:
    text = render(load_summary(run_dir), run_dir=run_dir, unicode=False)
    assert text.isascii()
    assert "4 -> 2" in text
    assert re.search(r"backward +#{10} +40\.0 %", text)


def test_foreign_text_is_written_out_not_interpreted(tmp_path: Path) -> None:
    preset = preset_dict(name="a\x1b[2Jb", model={"name": "evil\x07"})
    run_dir = run_directory(tmp_path, "bare", preset=preset)
    text = render(load_summary(run_dir), unicode=True)
    assert not any(ord(character) < 32 and character != "\n" for character in text)
    assert "\\e[2J" in text


def test_a_run_that_failed_says_why_and_what_to_do(tmp_path: Path) -> None:
    run_dir = run_directory(tmp_path, Status.OOM, events=finished_events()[:5], reason="CUDA out of memory in backward")
    text = render(load_summary(run_dir), unicode=True)
    assert "oom" in text.splitlines()[0]
    assert "CUDA out of memory in backward" in text
    assert "where time went" not in text


@pytest.mark.parametrize(
    ("state", "until", "updates", "said"),
    [
        (Status.CANCELLED, Stage.MEASURE, 4, "the run ended before its profiled updates, which follow"),
        (Status.DONE, None, 0, "the budget is 0 updates, so none was profiled"),
    ],
)
def test_a_run_without_a_trace_says_why(
    tmp_path: Path, state: Status, until: Stage | None, updates: int, said: str
) -> None:
    log = EventBuilder()
    log.emit(Totals, steps=0, samples=0, tokens=None, seconds=0.0, instrumentation_ms=0.0)
    events = log.events if updates == 0 else finished_events(until=until)
    asked = preset_dict(profile={"steps": 2}, budget={"updates": updates})
    summary = load_summary(run_directory(tmp_path / "a", state, events=events, preset=asked))
    assert f"  no trace         {said}" in render(summary, unicode=True)
    assert "notes" not in render(summary, unicode=True)
    unasked = preset_dict(profile={"steps": 0}, budget={"updates": updates})
    assert load_summary(run_directory(tmp_path / "b", state, events=events, preset=unasked)).remarks == []


def test_a_running_run_may_still_get_its_trace(tmp_path: Path) -> None:
    run_dir = run_directory(tmp_path, Status.MEASURING, preset=preset_dict(profile={"steps": 2}))
    assert load_summary(run_dir).remarks == []


def test_a_running_run_is_called_not_final(tmp_path: Path) -> None:
    run_dir = run_directory(tmp_path, Status.MEASURING)
    assert render(load_summary(run_dir), unicode=True).splitlines()[0].endswith("measuring (not final)")


def test_an_audit_that_failed_is_seen(tmp_path: Path) -> None:
    summary = compute(RunHandle(run_directory(tmp_path)))
    assert summary.audit is not None
    failed = msgspec.structs.replace(
        summary.audit, error=0.3, passed=False, without_gradient=["head.weight"], no_effect="the model is in eval mode"
    )
    text = render(msgspec.structs.replace(summary, audit=failed), unicode=True)
    assert "gradient audit: FAILED, error 3.0e-01 of at most 1e-06" in text
    assert "head.weight" in text
    assert "the model is in eval mode" in text


def test_without_the_memory_step_activations_are_unknown_and_nothing_has_a_share(tmp_path: Path) -> None:
    run_dir = run_directory(tmp_path, Status.CANCELLED, events=finished_events(until=Stage.MEASURE))
    text = render(load_summary(run_dir), unicode=True)
    assert (
        text.partition("\nwhere memory went")[2].partition("\n\n")[0]
        == """\
                                            largest
  parameters                                                3.91 KiB
  buffers                                                       40 B
  gradients                                                 3.91 KiB
  optimizer state                                           7.81 KiB
  inputs                                                       400 B
  activations                                                    n/a
    of them saved  5.86 KiB kept for backward at the end of forward"""
    )


def test_a_trace_that_was_deleted_is_called_so_and_not_offered(run_dir: Path) -> None:
    (run_dir / TRACE).unlink()
    text = render(load_summary(run_dir), run_dir=run_dir, unicode=True)
    assert "2 steps from step 8, deleted since" in text
    assert "open it" not in text
    assert "perfetto" not in text


def test_a_printed_command_is_quoted_for_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_dir = run_directory(tmp_path / "my runs; ls", events=finished_events(trace=TRACE))
    (run_dir / TRACE).touch()
    assert "  gradscope tensorboard 'my runs; ls'\n" in render(load_summary(run_dir), run_dir=run_dir, unicode=True)


def test_a_run_without_measured_steps_says_n_a_once_a_row(tmp_path: Path) -> None:
    run_dir = run_directory(tmp_path, events=finished_events(until=Stage.WARMUP))
    rows = render(load_summary(run_dir), unicode=True).splitlines()
    assert [row for row in rows if row.count("n/a") > 1 and "activations" not in row] == []
    assert "  throughput       n/a" in rows
    assert rows[1] == "0 steps measured after 2 of warm-up"


@pytest.mark.parametrize("width", [1, 20, 40, 59])
def test_a_narrow_terminal_is_no_error(run_dir: Path, width: int) -> None:
    said = msgspec.structs.replace(load_summary(run_dir), remarks=[Remark(code="x", message="a long word " * 9)])
    assert "a long word" in render(said, width, run_dir=run_dir, unicode=True)


def test_a_model_of_the_users_own_has_no_scale(tmp_path: Path) -> None:
    preset = preset_dict(model={"name": "py:mine.py:make", "scale": "tiny"})
    text = render(load_summary(run_directory(tmp_path, "bare", preset=preset)), unicode=True)
    assert text.startswith("quick · py:mine.py:make · adam · standard")
