"""How many cells run at once and where, and what is done about others on a card."""

import socket

import pytest
from nvml_stub.build import gpu

from gradscope.analysis.strangers import contamination
from gradscope.config.grid import grid_cells
from gradscope.core.samples import GpuSample, Sample
from gradscope.core.status import Status
from gradscope.errors import ExitCode, GradscopeError
from gradscope.launch import sweep
from gradscope.launch.cells import RunningCell
from gradscope.launch.plan import make_plan
from gradscope.launch.slots import PIN, choose_slots
from gradscope.launch.sweep import Options, Sweep, Watcher
from gradscope.launch.wakeup import catching_signals
from gradscope.launch.warm import WarmLost
from gradscope.sampling.foreign import guests
from tests.made_cells import GRID, made_run, write_grid

TWO_CARDS = [*gpu("GPU-A", "00000000:05:00.0", "Big"), *gpu("GPU-B", "00000000:06:00.0", "Big")]


def cells_on(folder, device, threads=None):
    settings = f'[run]\ndevice = "{device}"\n' + (f"threads = {threads}\n" if threads else "")
    return grid_cells(write_grid(folder, settings + GRID))


def test_on_a_cpu_one_cell_runs_at_a_time_unless_asked(tmp_path, no_nvml):
    assert choose_slots(cells_on(tmp_path, "auto"), "auto", {}).environments == [{}]
    three = choose_slots(cells_on(tmp_path, "cpu", threads=1), "3", {}, cores=2)
    assert three.environments == [{}, {}, {}]
    assert three.notes == [
        "3 cells at once with up to 1 threads each have 2 cores: they will slow each other down; "
        "-s run.threads=1 gives each one"
    ]
    assert choose_slots(cells_on(tmp_path, "cpu", threads=1), "2", {}, cores=2).notes == []


def test_each_card_has_one_cell_pinned_to_it(tmp_path, nvml_script):
    nvml_script(TWO_CARDS)
    cells = cells_on(tmp_path, "auto")
    assert choose_slots(cells, "auto", {}).environments == [{PIN: "GPU-A"}, {PIN: "GPU-B"}]
    assert choose_slots(cells, "1", {}).environments == [{}]
    assert choose_slots(cells, "auto", {PIN: "1"}).environments == [{}]
    assert choose_slots(cells_on(tmp_path, "cpu", threads=1), "auto", {}).environments == [{}]
    assert choose_slots(cells_on(tmp_path, "cuda:1"), "auto", {}).environments == [{}]


@pytest.mark.parametrize(
    ("device", "jobs", "words"),
    [
        ("auto", "0", "allowed auto, or a number from 1 to 1024"),
        ("auto", "many", "allowed auto, or a number from 1 to 1024"),
        ("auto", "3", "there are 2 GPUs"),
        ("cuda:1", "2", "run.device = cuda:1 names one"),
    ],
)
def test_jobs_that_cannot_be(tmp_path, nvml_script, device, jobs, words):
    nvml_script(TWO_CARDS)
    with pytest.raises(GradscopeError, match=words):
        choose_slots(cells_on(tmp_path, device), jobs, {})


def test_who_computes_on_a_card_before_a_run_is_a_guest(nvml_script):
    nvml_script([*TWO_CARDS, "process GPU-B compute 3999999999 5", "process GPU-A graphics 1 5"])
    assert guests({}, "cuda:1") == ["3999999999, of another container"]
    assert guests({PIN: "GPU-B"}, "auto") == ["3999999999, of another container"]
    assert guests({}, "cuda:0") == []
    assert guests({}, "cpu") == []


def test_a_run_that_had_company_says_so_once():
    def sample(*others):
        card = GpuSample(uuid="GPU-A", foreign=list(others) or None)
        return Sample(t_ns=0, interval_ms=100.0, gpus=[card])

    assert contamination([sample(), sample()]) == []
    (remark,) = contamination([sample("7 python"), sample(), sample("7 python", "8 python")])
    assert (remark.code, remark.message) == (
        "contaminated",
        "other processes computed on the card during the run: 7 python, 8 python",
    )


class ReadyWarm:
    """A warm process that forks nothing."""

    def __init__(self, log):
        del log

    def begin(self):
        pass

    def is_ready(self):
        return True

    def descriptors(self):
        return []

    def close(self):
        return 0


class Heard(Watcher):
    def __init__(self):
        self.words = []

    def started(self, state, running):
        self.words.append("started")

    def guests(self, state, cell, found, *, wait):
        self.words.append((*found, wait))


@pytest.fixture
def sweep_of(tmp_path, monkeypatch):
    """Run a sweep whose cells are over at once, and return its state, what was heard, and how often it was tried."""
    monkeypatch.setattr(sweep, "WarmProcess", ReadyWarm)
    monkeypatch.setattr(sweep, "GUESTS_SECONDS", 0.0)

    def run(text, *, who=lambda env, device: [], words=(Status.DONE,), lost=0, **options):
        losses, ends = iter([True] * lost), iter([*words, *[Status.DONE] * 10])

        def start(warm, cell, lock, *, out, slot, **others):
            if next(losses, False):
                lock.release()
                raise WarmLost
            ours, theirs = socket.socketpair()
            ours.setblocking(False)
            theirs.close()
            handle = made_run(out, cell, next(ends))
            return RunningCell(cell=cell, handle=handle, lock=lock, slot=slot, socket=ours)

        monkeypatch.setattr(sweep, "start_cell", start)
        heard = Heard()
        with catching_signals() as wakeup:
            plan = make_plan(write_grid(tmp_path, text), tmp_path / "out")
            state = Sweep(plan, Options(guests=who, **options), wakeup, heard).run()
        return state, heard.words

    return run


def test_exit_codes_say_what_the_cells_came_to(sweep_of, tmp_path):
    assert sweep_of(GRID)[0].exit_code() == 0
    state, _ = sweep_of(GRID.replace("0.2", "0.3"), words=[Status.CANCELLED])
    assert (state.exit_code(), len(state.ran)) == (ExitCode.STOPPED, 2)
    state, _ = sweep_of(GRID.replace("0.2", "0.4"), words=[Status.CANCELLED, Status.OOM])
    assert state.exit_code() == ExitCode.FAILED


def test_fail_fast_ends_at_the_first_that_is_not_done(sweep_of):
    state, heard = sweep_of(GRID, words=[Status.DONE, Status.OOM], fail_fast=True)
    assert (heard, state.exit_code()) == (["started", "started"], 1)


def test_a_cell_waits_again_when_the_warm_process_is_lost_and_the_third_time_is_an_error(sweep_of):
    assert len(sweep_of(GRID, lost=2)[0].ran) == 5
    with pytest.raises(GradscopeError, match="killed 3 times in a row"):
        sweep_of(GRID.replace("0.2", "0.3"), lost=3)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("warn", [("7 python", False), "started"] + ["started"] * 4),
        ("wait", [("7 python", True), "started"] + ["started"] * 4),
    ],
)
def test_company_on_the_card_is_told_or_waited_for(sweep_of, policy, expected):
    answers = iter([["7 python"]])
    text = GRID.replace("[sweep]", f'[sweep]\non_foreign = "{policy}"')
    state, heard = sweep_of(text, who=lambda env, device: next(answers, []))
    assert heard == expected
    assert state.exit_code() == 0


def test_company_on_the_card_may_end_a_sweep(sweep_of):
    answers = iter([[], ["7 python"]])
    text = GRID.replace("[sweep]", '[sweep]\non_foreign = "fail"')
    with pytest.raises(GradscopeError, match="other processes compute on the card: 7 python") as raised:
        sweep_of(text, who=lambda env, device: next(answers, []))
    assert raised.value.exit_code is ExitCode.ENVIRONMENT
