import json
import tomllib

import pytest

from gradscope.cli import app


@pytest.fixture
def gradscope(monkeypatch, capsys, tmp_path):
    """Run the command line in this process, in an empty folder; returns (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr("sys.argv", ["gradscope", *arguments])
        with pytest.raises(SystemExit) as left:
            app.main()
        captured = capsys.readouterr()
        return int(left.value.code or 0), captured.out, captured.err

    return call


def test_without_a_name_presets_are_listed_with_a_line_each(gradscope):
    code, out, err = gradscope("presets")
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[0].split() == ["PRESET", "MODEL", "GRID", "DESCRIPTION"]
    assert len(lines) == 2 + 11
    quick = next(line for line in lines if line.startswith("quick"))
    assert "vit (tiny)" in quick
    assert "the default job" in quick
    grid = next(line for line in lines if line.startswith("grid-tiny"))
    assert " 60 cells  " in grid


def test_a_preset_of_the_current_folder_is_listed_and_a_wrong_one_does_not_hide_the_others(gradscope, tmp_path):
    (tmp_path / "presets").mkdir()
    (tmp_path / "presets" / "mine.toml").write_text('description = "my \\u001b[2J own"')
    (tmp_path / "presets" / "wrong.toml").write_text("[modle]")
    code, out, _ = gradscope("presets")
    assert code == 0
    assert "my \\e[2J own" in out
    assert "\x1b" not in out
    assert "cannot be used: modle in presets/wrong.toml: found an unknown key" in out
    assert "quick" in out


def test_a_named_preset_is_printed_as_toml_that_loads(gradscope):
    code, out, err = gradscope("presets", "quick", "-s", "run.seed=7")
    data = tomllib.loads(out)
    assert (code, err) == (0, "")
    assert data["run"]["seed"] == 7
    assert data["model"]["name"] == "vit"
    assert "name" not in data


def test_json_has_everything(gradscope):
    assert json.loads(gradscope("presets", "quick", "--json")[1])["optimizer"]["lr"] == 0.001
    listed = json.loads(gradscope("presets", "--json")[1])
    assert {item["name"]: item["cells"] for item in listed}["grid-paper"] == 60
    optimizers = json.loads(gradscope("presets", "--list", "optimizers", "--json")[1])
    assert {item["name"]: item["scheme"] for item in optimizers}["pytorch_optimizer"] is True


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("models", ["vit", "modernbert", "llama", "nanovlm", "hf:", "py:", "; needs"]),
        ("optimizers", ["sgd", "adam", "cgd", "pytorch_optimizer:", "torch.optim by its name: Adadelta"]),
        ("strategies", ["standard", "checkpoint", "accumulate", "checkpoint-accumulate"]),
        ("data", ["shapes", "text", "random", "file", "folder", "hf:"]),
    ],
)
def test_what_a_preset_can_name(gradscope, kind, words):
    code, out, _ = gradscope("presets", "--list", kind)
    assert code == 0
    for word in words:
        assert word in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["presets", "qick"], 'gradscope: there is no preset "qick"\n  did you mean quick?\n'),
        (
            ["presets", "quick", "-s", "optimizer.lrr=1"],
            "gradscope: optimizer.lrr in -s optimizer.lrr=1: found an unknown key, allowed lr, name, options\n"
            "  did you mean optimizer.lr?\n",
        ),
        (["presets", "--list", "optimisers"], 'gradscope: --list: found "optimisers", allowed models, optimizers, str'),
        (["presets", "quick", "--list", "models"], "gradscope: --list and the name of a preset exclude each other\n"),
        (["presets", "/usr"], "gradscope: the folder /usr is no preset file\n  a preset is a TOML file"),
        (["presets", "~nobody-here/x.toml"], "gradscope: there is no preset file ~nobody-here/x.toml\n"),
        (["presets", "-s", "run.seed=1"], "gradscope: -s changes a preset, and none is named\n"),
    ],
)
def test_a_mistake_is_one_message_and_exit_code_2(gradscope, arguments, message):
    code, out, err = gradscope(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(message)
    assert "Traceback" not in err
