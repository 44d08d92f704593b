import re
import shlex

import pytest

from gradscope.config.load import load_preset
from gradscope.config.places import shipped_folder


def uncommented(file):
    """Return a preset's comments as plain text, continued lines joined."""
    lines = [line[1:].strip() for line in file.read_text().splitlines() if line.startswith("#")]
    return re.sub(r"\\\n", "", "\n".join(lines))


NAMES = sorted(path.stem for path in shipped_folder().glob("*.toml"))


def test_the_shipped_presets_are_these():
    assert NAMES == [
        "grid-paper",
        "grid-tiny",
        "llama-1b",
        "llama-tiny",
        "modernbert-base",
        "modernbert-tiny",
        "nanovlm-222m",
        "nanovlm-tiny",
        "quick",
        "vit-b16",
        "vit-tiny",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_preset_loads_says_what_it_is_and_needs_no_network(name):
    preset = load_preset(name)
    assert preset.name == name
    assert 0 < len(preset.description) <= 100
    assert ":" not in preset.model.name
    assert preset.data.name in {"shapes", "text", "random"}


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_preset_starts_with_a_comment_about_itself(name):
    assert (shipped_folder() / f"{name}.toml").read_text().startswith("# ")


COMMANDS = [
    command
    for name in NAMES
    for command in re.findall(
        r"^gradscope (?:run|presets) .*", uncommented(shipped_folder() / f"{name}.toml"), flags=re.MULTILINE
    )
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_in_a_comment_of_a_preset_works(command):
    words = shlex.split(command.partition("   ")[0])
    settings = [words[index + 1] for index, word in enumerate(words) if word == "-s"]
    assert load_preset(words[2], settings).name in NAMES
    assert len(words) == 3 + 2 * len(settings)


@pytest.mark.parametrize("name", [name for name in NAMES if "tiny" in name or name == "quick"])
def test_what_is_meant_for_two_cores_says_so(name):
    preset = load_preset(name)
    assert (preset.model.scale, preset.run.threads) == ("tiny", 1)


@pytest.mark.parametrize("name", ["grid-tiny", "grid-paper"])
def test_every_claim_of_the_grids_is_about_cells_that_exist(name):
    preset = load_preset(name)
    assert preset.sweep is not None
    models = {value["model"]["name"] for value in preset.sweep.axes["model+data"]}
    optimizers = {value["name"] for value in preset.sweep.axes["optimizer"]}
    strategies = {value["strategy"] for value in preset.sweep.axes["memory"]}
    allowed = {"model.name": models, "optimizer.name": optimizers, "memory.strategy": strategies}
    for claim in preset.claim:
        for picked in (claim.subset, claim.numerator, claim.denominator or {}):
            for key, value in picked.items():
                assert set(value if isinstance(value, list) else [value]) <= allowed[key]


def test_the_tiny_grid_makes_only_claims_that_a_cpu_can_judge():
    tiny, paper = load_preset("grid-tiny"), load_preset("grid-paper")
    assert {claim.needs for claim in tiny.claim} == {"any"}
    assert {claim.name for claim in tiny.claim} < {claim.name for claim in paper.claim}
    assert {claim.name for claim in paper.claim if claim.evidence == "audit"} == {
        "checkpoint-loss-vit",
        "checkpoint-loss-encoder",
    }
