"""NVML that misbehaves under a running run: the run goes on, the trouble is said once, and the summary repeats it."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from nvml_stub.build import GPU_IS_LOST, NOT_SUPPORTED, UNKNOWN, VERSION_MISMATCH, gpu

from gradscope.analysis.summary import load_summary
from gradscope.core.samples import Sample, SampleLine, SamplerStarted
from gradscope.core.status import Status
from gradscope.rundir.control import StopRequested, request
from gradscope.rundir.handle import RunHandle
from tests import fake_runs

Seen = Callable[[Sequence[SampleLine]], object]


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nvml_library: Path) -> Iterator[None]:
    """The supervisor, a process of its own, loads the stub as it would load the driver's library."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(nvml_library.parent))
    monkeypatch.setenv("NVML_STUB_SCRIPT", str(tmp_path / "nvml.script"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    yield
    fake_runs.reap()


def trained_until(tmp_path: Path, script: Sequence[str], seen: Seen) -> RunHandle:
    """Train on the card `GPU-A` until its samples show `seen` and ten more steps are done; return the ended run."""
    (tmp_path / "nvml.script").write_text("".join(f"{line}\n" for line in script))
    run = fake_runs.start(tmp_path, "on_card", finisher="real", sampling=True)
    fake_runs.wait_for(lambda: seen(run.samples()))
    fake_runs.wait_for_steps(run, len(run.events()) + 10)
    request(run.path, StopRequested())
    assert fake_runs.wait_for_end(run, 60).status is Status.CANCELLED
    return run


def cards(lines: Sequence[SampleLine]) -> list[tuple[bool, float | None]]:
    return [(card.lost, card.gpu_busy_pct) for line in lines if isinstance(line, Sample) for card in line.gpus]


def test_a_card_that_is_lost_during_a_run_and_comes_back(tmp_path: Path) -> None:
    # a reading makes about ten calls to a card: the first good ones, then one that fails, then those of the return
    script = [*gpu("GPU-A", "00000000:05:00.0", "Big"), f"error DeviceGetUtilizationRates GPU-A {GPU_IS_LOST} 4 4"]

    def came_back(lines: Sequence[SampleLine]) -> bool:
        seen = cards(lines)
        return (True, None) in seen and seen[-1] == (False, 50)

    run = trained_until(tmp_path, script, came_back)
    said = [remark.message for remark in load_summary(run.path).remarks if remark.code == "sampler"]
    assert [message for message in said if "does not answer" in message or "answers again" in message] == [
        "cuda:0 (Big): it does not answer any more (GPU is lost); it is asked again from time to time",
        "cuda:0 (Big): it answers again",
    ]
    busy = load_summary(run.path).utilization.gpu_busy_pct
    assert busy is not None
    assert busy.mean == 50


@pytest.mark.parametrize(
    ("code", "words"),
    [(NOT_SUPPORTED, "no power draw (Not Supported)"), (UNKNOWN, "could not be read (Unknown Error)")],
)
def test_a_figure_that_a_card_stops_giving_is_said_once_and_takes_no_other_along(
    tmp_path: Path, code: int, words: str
) -> None:
    script = [*gpu("GPU-A", "00000000:05:00.0", "Big"), f"error DeviceGetPowerUsage GPU-A {code} 4"]

    def without_power(lines: Sequence[SampleLine]) -> bool:
        return any(
            card.power_w is None and card.gpu_busy_pct == 50 and not card.lost
            for line in lines
            if isinstance(line, Sample)
            for card in line.gpus
        )

    run = trained_until(tmp_path, script, without_power)
    said = [remark.message for remark in load_summary(run.path).remarks if "power draw" in remark.message]
    assert len(said) == 1
    assert words in said[0]


def test_a_driver_that_hangs_holds_up_no_run_and_is_told(tmp_path: Path) -> None:
    script = [*gpu("GPU-A", "00000000:05:00.0", "Big"), "sleep DeviceGetUtilizationRates 600000"]
    run = trained_until(tmp_path, script, lambda lines: any(isinstance(line, SamplerStarted) for line in lines))
    told = "sampling hung, most likely in the GPU's driver, and was left behind: figures may be missing"
    assert run.status().notes == (told,)
    assert told in [remark.message for remark in load_summary(run.path).remarks]
    assert load_summary(run.path).utilization.gpu_busy_pct is None
    assert fake_runs.processes_of(run) == []


def test_a_driver_that_does_not_fit_its_library_is_one_sentence_in_the_summary(tmp_path: Path) -> None:
    run = trained_until(tmp_path, [f"error Init * {VERSION_MISMATCH}"], lambda lines: len(lines) > 3)
    [told] = [remark.message for remark in load_summary(run.path).remarks if remark.code == "no_gpu"]
    assert told.endswith("; reboot")
