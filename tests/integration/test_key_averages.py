"""Operators equal torch.profiler's own sums of the same run, to the nanosecond and the byte.

It takes times that are loaded to the nanosecond: `ts` near 5e12 us is a float that is off by up to half a ns, so it
must be rounded to ns before a start is subtracted. With one ns too much, a frame that ends with the one around it is
outside it.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gradscope.trace.load import load_trace
from gradscope.trace.modules import modules
from gradscope.trace.operators import KINDS, operators

SCRIPT = Path(__file__).parents[1] / "profiled_run.py"
FIGURES = ("calls", "host_ns", "self_host_ns", "memory_bytes", "self_memory_bytes")
STACK_DEPTH = 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("profiled")
    subprocess.run([sys.executable, SCRIPT, found], check=True, capture_output=True, timeout=100)
    return found


def keyed(rows, by):
    def key(row):
        annotation = row["annotation"] if "annotation" in row else row["kind"] == "annotation"
        if by == "name+shape":
            shapes = row["shapes"] if isinstance(row["shapes"], list) else json.loads(row["shapes"])
            return row["name"], annotation, json.dumps(shapes)
        return (row["name"], annotation, *(row["stack"] if by == "stack" else ()))

    found = {key(row): tuple(row[figure] for figure in FIGURES) for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.parametrize(
    ("run", "by"),
    [
        *((run, by) for run in ("plain", "threads", "stacks") for by in ("name", "name+shape", "stack")),
        ("frames", "name"),
        ("frames", "name+shape"),
    ],
)
def test_operators_equal_key_averages(folder, run, by):
    trace = load_trace(folder / f"{run}.json", with_shapes=True, with_stacks=True)
    mine = operators(trace, by=by, kinds=KINDS, stack_depth=STACK_DEPTH, signed=True)
    theirs = json.loads((folder / f"{run}.sums.json").read_text())[by]
    assert keyed(mine.to_dicts(), by) == keyed(theirs, by)


def test_without_call_stacks_the_frames_around_a_call_are_told_where_torch_tells_nothing(folder):
    theirs = json.loads((folder / "frames.sums.json").read_text())["stack"]
    assert {len(row["stack"]) for row in theirs} == {0}
    mine = operators(load_trace(folder / "frames.json", with_stacks=True), by="stack")
    products = mine.filter(mine["name"] == "aten::addmm")
    modules_of = {next(frame for frame in stack if "nn.Module" in frame) for stack in products["stack"]}
    assert modules_of == {"nn.Module: Linear_0", "nn.Module: Linear_1"}
    assert products["calls"].to_list() == [3, 3]


def test_modules_are_found_among_the_frames(folder):
    found = modules(load_trace(folder / "frames.json")).frame
    assert set(found.select("path", "calls").rows()) == {
        ("Net_0", 3),
        ("Net_0 / Embedding_0", 3),
        ("Net_0 / Linear_0", 3),
        ("Net_0 / Linear_1", 3),
    }
