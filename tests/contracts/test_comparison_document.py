"""docs/comparison.md names every number that a condition may be about, and every key of the JSON."""

import re
from pathlib import Path

import msgspec

from gradscope.analysis.comparison import Comparison
from gradscope.analysis.quantities import QUANTITIES

TEXT = (Path(__file__).parents[2] / "docs" / "comparison.md").read_text()
NAMED = set(re.findall(r"`([a-z_0-9A-Z]+)`", TEXT))


def test_every_number_is_named() -> None:
    phases = {f"phase_{name}_ms" for name in NAMED}
    assert [name for name in QUANTITIES if name not in NAMED | phases] == []


def test_every_key_is_named() -> None:
    for record in msgspec.json.schema(Comparison)["$defs"].values():
        assert [key for key in record.get("properties", {}) if key not in NAMED] == []
