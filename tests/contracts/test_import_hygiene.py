"""What a command may import: the start of the command line stays fast because nothing heavy is in it."""

import json
import os
import subprocess
import sys

import pytest

HEAVY = ("torch", "transformers", "polars", "tensorboard", "numpy", "textual", "pandas", "PIL")

PROBE = """
import json, sys
sys.argv = ["gradscope", *json.loads(sys.argv[1])]
from gradscope.cli.app import main
try:
    main()
except SystemExit as left:
    code = left.code
print(json.dumps({"code": code, "modules": sorted(sys.modules)}), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["presets"], ["presets", "quick"], ["presets", "--list", "models"]],
    ids=" ".join,
)
def test_nothing_heavy_is_imported(arguments):
    done = subprocess.run(
        [sys.executable, "-c", PROBE, json.dumps(arguments)], capture_output=True, text=True, check=False, timeout=60
    )
    found = json.loads(done.stderr.splitlines()[-1])
    assert found["code"] in (0, None)
    assert [name for name in HEAVY if name in found["modules"]] == []


OPENED = """
import asyncio, json, sys
from pathlib import Path
from gradscope.tui import start
from gradscope.tui.app import GradscopeApp
from gradscope.tui.glyphs import UNICODE
from gradscope.tui.screens.base import Context

async def opened():
    context = Context(Path("traces"), UNICODE, 0.5, lambda: 0, lambda: 0)
    async with GradscopeApp(context).run_test() as pilot:
        await pilot.pause()

asyncio.run(opened())
print(json.dumps(sorted(sys.modules)))
"""


def test_the_app_opens_without_anything_heavy_but_textual(tmp_path):
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", OPENED], capture_output=True, text=True, check=True, timeout=60, cwd=tmp_path, env=env
    )
    modules = json.loads(done.stdout.splitlines()[-1])
    assert [name for name in HEAVY if name in modules] == ["textual"]
