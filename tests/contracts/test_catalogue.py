"""Each catalogue entry leads to a function that exists, which is looked up without importing torch."""

import ast
from pathlib import Path

import pytest

import gradscope
from gradscope.config.catalogue import ACCUMULATING, KINDS, STRATEGIES

ENTRIES = [entry for groups in KINDS.values() for group in groups for entry in group.values()]
ROOT = Path(gradscope.__file__).parent.parent


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_a_target_exists(entry):
    module, _, name = entry.target.partition(":")
    file = ROOT / f"{module.replace('.', '/')}.py"
    defined = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.Assign):
            defined.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            defined.add(node.target.id)
    assert name in defined


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_a_summary_is_one_line(entry):
    assert 0 < len(entry.summary) <= 100
    assert "\n" not in entry.summary + entry.needs


def test_names_are_unique_within_a_kind():
    for groups in KINDS.values():
        names = [name for group in groups for name in group]
        assert len(names) == len(set(names))
        for group in groups:
            assert all(name == entry.name for name, entry in group.items())


def test_the_strategies_that_accumulate_are_strategies():
    assert set(STRATEGIES) >= ACCUMULATING
