"""`run`, `attach`, `stop`, `capture` and `runs` over made-up workers: streams, exit codes, signals."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradscope.core.status import Status
from gradscope.launch.grace import SECOND_SIGNAL_SECONDS
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.registry import all_runs
from tests import fake_runs
from tests.builders import run_directory

ROOT = Path(__file__).parents[2]
FAKE_CLI = [sys.executable, str(ROOT / "tests" / "fake_cli.py")]


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    yield
    fake_runs.reap()


def gradscope(*arguments: str, behaviour: str = "finishes") -> subprocess.CompletedProcess[str]:
    command = [*FAKE_CLI, behaviour, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, check=False)


def start(*arguments: str, behaviour: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*FAKE_CLI, behaviour, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def the_run(out: Path, command: subprocess.Popen[str] | None = None) -> RunHandle:
    """Wait for the one run below an output root to train; fail at once if the command that starts it has ended."""

    def found() -> bool:
        if command is not None and command.poll() is not None:
            pytest.fail(f"left with {command.returncode}, no run started\n{''.join(command.communicate())}")
        return bool(all_runs(out))

    fake_runs.wait_for(found)
    [run] = all_runs(out)
    fake_runs.wait_for_steps(run)
    return run


def test_a_run_prints_its_table_on_stdout_and_everything_else_on_stderr(tmp_path: Path) -> None:
    done = gradscope("run", "quick")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].startswith("fake ")
    assert "5 steps measured after 1 of warm-up" in done.stdout
    [run] = all_runs(tmp_path / "traces")
    assert done.stderr.splitlines()[0] == f"run {run.run_id} in {run.path}"
    assert "\x1b" not in done.stderr + done.stdout


def test_quiet_json_is_one_line_and_nothing_else() -> None:
    done = gradscope("run", "quick", "--quiet", "--json", "--out", "elsewhere")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 1
    assert json.loads(done.stdout)["status"] == "done"


def test_a_failed_run_says_why_where_and_what_the_worker_said_last(tmp_path: Path) -> None:
    done = gradscope("run", "quick", "--quiet", behaviour="raises")
    assert done.returncode == 1
    [run] = all_runs(tmp_path / "traces")
    assert done.stderr.splitlines() == [
        r"failed: RuntimeError at step 2: broken [/red]\e[2J",
        "  worker.log in the run directory holds all the worker said",
        f"  {run.path / 'worker.log'}:",
        "  | Traceback (most recent call last):",
        "  |   ...",
        "  | RuntimeError: the model is broken",
    ]


def test_out_of_memory_leaves_with_3() -> None:
    assert gradscope("run", "quick", behaviour="starves").returncode == 3


def test_repeats_count_seeds_up_and_leave_with_the_worst_code(tmp_path: Path) -> None:
    done = gradscope("run", "quick", "--repeat", "2", "-s", "run.seed=5", "--json", behaviour="raises")
    assert done.returncode == 1
    assert [json.loads(line)["status"] for line in done.stdout.splitlines()] == ["failed", "failed"]
    seeds = [line for line in done.stderr.splitlines() if "of 2, seed" in line]
    assert seeds == ["run 1 of 2, seed 5", "run 2 of 2, seed 6"]
    assert len(all_runs(tmp_path / "traces")) == 2


def test_an_output_root_that_cannot_be_written_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    command = [
        sys.executable,
        "-c",
        "from gradscope.cli.app import main; main()",
        "run",
        "quick",
        "--out",
        "file/traces",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 6
    assert done.stderr.splitlines() == [
        "gradscope: cannot make a run directory below file/traces: Not a directory",
        "  choose another output root with --out",
    ]


def test_an_output_root_whose_path_is_no_text_is_one_message() -> None:
    done = gradscope("run", "quick", "--out", os.fsdecode(b"bad-\xff"))
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "  choose another one with --out"
    assert "bad-\\udcff is not valid UTF-8" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_working_directory_whose_path_is_no_text_stops_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / os.fsdecode(b"bad-\xff")
    odd.mkdir()
    monkeypatch.chdir(odd)
    done = gradscope("run", "quick", "--out", str(tmp_path / "traces"))
    assert done.returncode == 0, done.stderr
    manifest = the_run(tmp_path / "traces").manifest()
    assert manifest is not None
    assert manifest.cwd == str(tmp_path / "bad-\\udcff")


def test_what_the_machine_refuses_is_one_message() -> None:
    too_long = "a" * 300
    done = gradscope("show", too_long)
    assert (done.returncode, done.stderr) == (6, f"gradscope: {too_long}: File name too long\n")
    with Path("/dev/full").open("w") as full:
        command = [*FAKE_CLI, "finishes", "presets"]
        refused = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (refused.returncode, refused.stderr) == (6, "gradscope: No space left on device\n")


def test_a_detached_run_is_found_followed_and_stopped_from_elsewhere(tmp_path: Path) -> None:
    done = gradscope("run", "quick", "--detach", behaviour="trains")
    assert done.returncode == 0
    run = RunHandle(Path(done.stdout.strip()))
    fake_runs.wait_for_steps(run)
    following = start("attach", run.run_id[:20], "--out", "nowhere", behaviour="-")
    listed = gradscope("runs", "--out", "nowhere", "--json")
    assert [json.loads(line)["run_id"] for line in listed.stdout.splitlines()] == [run.run_id]
    stopped = gradscope("stop", run.run_id, "--out", "nowhere")
    assert (stopped.returncode, stopped.stdout) == (0, f"{run.run_id} cancelled: it was stopped on request\n")
    stdout, stderr = following.communicate(timeout=30)
    assert following.returncode == 4
    assert stdout.startswith("fake ")
    assert "cancelled: it was stopped on request" in stderr
    again = gradscope("stop", run.run_id)
    assert (again.returncode, again.stderr) == (0, f"{run.run_id} was over already\n")


def test_interrupting_attach_detaches(tmp_path: Path) -> None:
    run = fake_runs.start(tmp_path / "traces", "trains")
    fake_runs.wait_for_steps(run)
    following = start("attach", run.run_id, behaviour="-")
    assert following.stderr is not None
    assert following.stderr.readline().startswith(f"run {run.run_id}")
    following.stderr.readline()  # the first event: it listens by now
    following.send_signal(signal.SIGINT)
    stderr = following.communicate(timeout=30)[1]
    assert following.returncode == 0
    assert stderr.splitlines()[-1] == f"run goes on; gradscope attach {run.run_id}"
    assert run.status().status is Status.MEASURING
    assert gradscope("stop", "last", "--kill").returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_without_a_terminal_each_signal_to_run_stops_the_run(tmp_path: Path, number: signal.Signals) -> None:
    following = start("run", "quick", behaviour="trains")
    run = the_run(tmp_path / "traces", following)
    following.send_signal(number)
    stdout, stderr = following.communicate(timeout=30)
    assert following.returncode == 128 + number
    assert f"cancelled: it was stopped by {number.name}" in stderr
    assert "steps measured" in stdout
    assert fake_runs.wait_for_end(run).status is Status.CANCELLED


def test_a_second_signal_kills_a_worker_that_does_not_listen(tmp_path: Path) -> None:
    following = start("run", "quick", behaviour="deaf")
    run = the_run(tmp_path / "traces", following)
    worker = fake_runs.pids_of(run)["worker"]
    following.send_signal(signal.SIGINT)
    fake_runs.wait_for((run.path / "control.jsonl").exists)
    asked_at = time.monotonic()
    fake_runs.wait_for(lambda: time.monotonic() - asked_at > SECOND_SIGNAL_SECONDS)  # sooner, it is the same wish
    following.send_signal(signal.SIGINT)
    stderr = following.communicate(timeout=30)[1]
    assert following.returncode == 130
    assert "cancelled: it was stopped by SIGINT; the worker was killed at once" in stderr
    assert not fake_runs.is_running(worker)


def test_a_killed_follower_does_not_touch_the_run(tmp_path: Path) -> None:
    following = start("run", "quick", behaviour="trains")
    run = the_run(tmp_path / "traces", following)
    following.kill()
    following.communicate()
    steps = len(run.events())
    fake_runs.wait_for(lambda: len(run.events()) > steps + 3)
    assert run.status().status is Status.MEASURING
    assert gradscope("stop", run.run_id).returncode == 0


def test_a_follower_notices_that_the_supervisor_died(tmp_path: Path) -> None:
    following = start("run", "quick", behaviour="trains")
    run = the_run(tmp_path / "traces", following)
    fake_runs.kill(fake_runs.pids_of(run)["supervisor"])
    stderr = following.communicate(timeout=30)[1]
    assert following.returncode == 137
    assert "killed: its supervisor was ended from outside while the run was" in stderr


def test_stop_last_stops_nothing_of_another_project(tmp_path: Path) -> None:
    theirs = fake_runs.start(tmp_path / "theirs", "trains")
    refused = gradscope("stop", "last")
    assert refused.returncode == 2
    assert refused.stderr.splitlines() == [
        "gradscope: no run below traces is running",
        f"  `gradscope stop ID` takes one from elsewhere: {theirs.run_id} in {tmp_path / 'theirs'}",
    ]
    assert gradscope("capture", "last").returncode == 2
    assert not theirs.status().status.is_final
    assert gradscope("stop", theirs.run_id).returncode == 0
    over = gradscope("stop", "last", "--out", "theirs")
    assert over.returncode == 0
    assert over.stderr == f"no run below theirs is running; {theirs.run_id} was over already\n"


def test_a_memory_snapshot_is_asked_for_and_its_path_or_error_told(tmp_path: Path) -> None:
    run = fake_runs.start(tmp_path / "traces", "captures")
    fake_runs.wait_for_steps(run)
    done = gradscope("capture", "last", "--snapshot")
    assert (done.returncode, done.stdout) == (0, f"{run.path / 'memory/1.pickle'}\n")
    failed = gradscope("capture", run.run_id, "--snapshot")
    assert failed.returncode == 1
    assert failed.stderr.splitlines()[-1] == "gradscope: no snapshot was written: unlucky"
    assert gradscope("stop", "last").returncode == 0


@pytest.mark.parametrize(
    ("root", "message"),
    [
        ("", "gradscope: the name of a folder is empty"),
        ("~nobody-here/x", "gradscope: there is no home folder for ~nobody-here/x"),
    ],
)
def test_an_output_root_that_is_no_folders_name_is_refused(root: str, message: str) -> None:
    done = gradscope("runs", "--out", root)
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, message)


def test_a_capture_waits_for_its_trace_or_says_why_there_is_none(tmp_path: Path) -> None:
    run = fake_runs.start(tmp_path / "traces", "captures")
    fake_runs.wait_for_steps(run)
    done = gradscope("capture", run.run_id, "--steps", "3")
    assert (done.returncode, done.stdout) == (0, f"{run.path / 'w1-3.pt.trace.json.gz'}\n")
    failed = gradscope("capture", run.run_id, "--steps", "13")
    assert failed.returncode == 1
    assert failed.stderr.splitlines()[-1] == "gradscope: no trace could be written: unlucky"
    asked = gradscope("capture", run.run_id, "--no-wait")
    assert (asked.returncode, asked.stdout) == (0, "")
    assert gradscope("stop", run.run_id).returncode == 0
    over = gradscope("capture", run.run_id)
    assert over.returncode == 2
    assert over.stderr.splitlines()[0] == f"gradscope: {run.run_id} is not running: cancelled"


def test_runs_are_listed_running_first_with_their_numbers(tmp_path: Path) -> None:
    empty = gradscope("runs")
    assert (empty.returncode, empty.stdout) == (0, "")
    over = fake_runs.start(tmp_path / "traces", "finishes")
    fake_runs.wait_for_end(over)
    going = fake_runs.start(tmp_path / "traces", "trains")
    fake_runs.wait_for_steps(going)
    head, _, first, second = gradscope("runs").stdout.splitlines()
    assert head.split() == ["RUN", "PRESET", "OPTIMIZER", "STRATEGY", "STATUS", "LOSS", "STEP", "PEAK", "AGE"]
    assert first.split()[:5] == [going.run_id[-6:], "fake", "adam", "standard", "measuring"]
    assert second.split()[:9] == [over.run_id[-6:], "fake", "adam", "standard", "done", "0.1667", "15.0", "ms", "n/a"]
    row = json.loads(gradscope("runs", "--json").stdout.splitlines()[1])
    assert (row["run_id"], row["path"]) == (over.run_id, str(over.path))
    told = [row[key] for key in ("optimizer", "strategy", "accumulate", "model", "device", "precision")]
    assert told == ["adam", "standard", None, "vit", "cpu", "fp32"]
    assert gradscope("show", over.run_id[-6:]).returncode == 0
    assert gradscope("stop", going.run_id).returncode == 0


def test_a_run_that_came_from_another_machine_is_not_listed_as_going_on(tmp_path: Path) -> None:
    run_directory(tmp_path / "traces", Status.MEASURING, elsewhere=True)
    assert gradscope("runs").stdout.splitlines()[2].split()[4] == "unknown"


class TerminalSession:
    """A command in a terminal of its own, 80 by 24."""

    def __init__(self, *arguments: str, behaviour: str) -> None:
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "xterm"
            os.execv(sys.executable, [*FAKE_CLI, behaviour, *arguments])
        self.output = b""

    def read_until(self, mark: bytes, seconds: float = 20.0) -> None:
        deadline = time.monotonic() + seconds
        while mark not in self.output:
            assert time.monotonic() < deadline, self.output
            if select.select([self.terminal], [], [], 0.1)[0]:
                self.output += os.read(self.terminal, 65536)

    def hang_up(self) -> int:
        """Close the terminal, as a dropped connection does; return the command's wait status."""
        os.close(self.terminal)
        return os.waitpid(self.pid, 0)[1]


def test_in_a_terminal_the_line_is_rewritten_and_a_hang_up_leaves_the_run_alone(tmp_path: Path) -> None:
    session = TerminalSession("run", "quick", behaviour="trains")
    session.read_until(b"\r\x1b[Kmeasuring")
    run = the_run(tmp_path / "traces")
    status = session.hang_up()
    assert os.waitstatus_to_exitcode(status) == 129
    steps = len(run.events())
    fake_runs.wait_for(lambda: len(run.events()) > steps + 3)
    assert run.status().status is Status.MEASURING
    assert gradscope("stop", run.run_id).returncode == 0
