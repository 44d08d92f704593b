"""What a command may import: the start of the command line stays fast because nothing heavy is in it."""

import json
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
