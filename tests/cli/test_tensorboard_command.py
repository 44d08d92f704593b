"""`gradscope tensorboard` where something is in the way: one clear message each, and nothing left running."""

import gzip
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gradscope.errors import ExitCode, GradscopeError
from gradscope.launch import tensorboard
from gradscope.launch.tensorboard import check_tensorboard, choose_port, ssh_forward, tensorboard_server

BROKEN = "raise ModuleNotFoundError(\"No module named 'pkg_resources'\")"


def gradscope(*arguments: str, path: Path | None = None) -> tuple[int, str, str]:
    """Run the command in a process of its own, with packages of ours before the installed ones."""
    environment = os.environ | ({"PYTHONPATH": str(path)} if path else {})
    command = [sys.executable, "-c", "from gradscope.cli.app import main; main()", "tensorboard", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def stub(folder: Path, package: str, body: str) -> Path:
    (folder / package).mkdir(parents=True)
    (folder / package / "__init__.py").write_text(body)
    return folder


@pytest.mark.parametrize("package", ["tensorboard", "torch_tb_profiler"])
def test_a_package_that_raises_when_imported_is_exit_code_6_and_names_the_remedy(tmp_path: Path, package: str) -> None:
    code, out, said = gradscope(str(tmp_path), path=stub(tmp_path / "stubs", package, BROKEN))
    assert (code, out) == (ExitCode.ENVIRONMENT, "")
    assert "cannot be imported: ModuleNotFoundError: No module named 'pkg_resources'" in said
    assert "pip install --force-reinstall tensorboard torch-tb-profiler" in said
    assert "Traceback" not in said


def test_a_package_that_ends_the_process_is_the_same_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(stub(tmp_path, "tensorboard", "import os; os._exit(7)")))
    with pytest.raises(GradscopeError, match="exit code 7") as raised:
        check_tensorboard()
    assert raised.value.exit_code == ExitCode.ENVIRONMENT


def test_a_server_that_ends_before_it_answers_is_an_error_with_its_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = stub(tmp_path, "tensorboard", "")
    (folder / "tensorboard" / "main.py").write_text('import sys; sys.exit("TensorBoard could not bind")')
    monkeypatch.setenv("PYTHONPATH", str(folder))
    with (
        pytest.raises(GradscopeError, match="did not start: TensorBoard could not bind"),
        tensorboard_server(tmp_path, choose_port(None), lambda line: None),
    ):
        pass


def test_no_such_folder_is_exit_code_2() -> None:
    code, _, said = gradscope("there/is/none")
    assert code == ExitCode.USAGE
    assert "there is no folder there/is/none" in said


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, _, said = gradscope(str(tmp_path / "file"))
    assert (code, said.splitlines()[0]) == (ExitCode.USAGE, f"gradscope: {tmp_path / 'file'} is no folder")


def test_a_folder_without_a_run_is_called_so(tmp_path: Path) -> None:
    stubs = stub(tmp_path / "stubs", "tensorboard", "")
    (stubs / "tensorboard" / "main.py").write_text("")
    (stub(stubs, "torch_tb_profiler", "") / "torch_tb_profiler" / "plugin.py").write_text("")
    (tmp_path / "empty").mkdir()
    assert f"there is no run below {tmp_path / 'empty'} yet" in gradscope(str(tmp_path / "empty"), path=stubs)[2]
    (tmp_path / "quick" / "run").mkdir(parents=True)
    (tmp_path / "quick" / "run" / "manifest.json").touch()
    assert "there is no run" not in gradscope(str(tmp_path / "quick"), path=stubs)[2]


def test_the_usual_port_is_taken_if_it_is_free_and_passed_by_if_not(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr(tensorboard, "USUAL_PORT", port)
        assert choose_port(None) not in (0, port)
        with pytest.raises(GradscopeError, match=f"port {port} cannot be used: Address already in use"):
            choose_port(port)
    assert choose_port(None) == port
    assert choose_port(port) == port


@pytest.mark.parametrize("port", [-1, 70_000])
def test_a_port_that_does_not_exist_is_an_error(port: int) -> None:
    with pytest.raises(GradscopeError, match=f"port {port} cannot be used"):
        choose_port(port)


@pytest.mark.parametrize(
    ("connection", "command"),
    [
        ("192.0.2.9 50000 192.0.2.1 22", "ssh -N -L 6006:127.0.0.1:6006 me@192.0.2.1"),
        ("192.0.2.9 50000 192.0.2.1 2222", "ssh -N -L 6006:127.0.0.1:6006 -p 2222 me@192.0.2.1"),
        ("fe80::2 50000 fe80::1 22", "ssh -N -L 6006:127.0.0.1:6006 me@fe80::1"),
        ("", None),
        ("nonsense", None),
    ],
)
def test_the_ssh_line_is_the_one_for_this_host(
    monkeypatch: pytest.MonkeyPatch, connection: str, command: str | None
) -> None:
    monkeypatch.setattr(tensorboard.getpass, "getuser", lambda: "me")
    assert ssh_forward(6006, {"SSH_CONNECTION": connection}) == command


def test_a_trace_too_large_for_a_browser_is_named(tmp_path: Path) -> None:
    run_dir = tmp_path / "traces" / "quick" / "run"
    run_dir.mkdir(parents=True)
    (run_dir / "big.1.pt.trace.json.gz").write_bytes(gzip.compress(b" " * (201 * 1024 * 1024), compresslevel=1))
    folder = stub(tmp_path / "stubs", "tensorboard", "")
    (folder / "tensorboard" / "main.py").write_text("")
    (folder / "torch_tb_profiler").mkdir()
    (folder / "torch_tb_profiler" / "__init__.py").write_text("")
    (folder / "torch_tb_profiler" / "plugin.py").write_text("")
    code, _, said = gradscope(str(tmp_path / "traces"), path=folder)
    assert "big.1.pt.trace.json.gz holds 201 MiB: the browser will struggle" in said
    assert code == ExitCode.ENVIRONMENT  # the stub ends at once
