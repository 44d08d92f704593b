"""`docs/reports.md` defines every column of a grid's results, and no other."""

import re
from pathlib import Path

import msgspec

from gradscope.analysis.claims import Verdict
from gradscope.analysis.curves import BUDGETS
from gradscope.analysis.grid_report import GridReport
from gradscope.analysis.results import FIRST, LAST, OF_SUMMARY

DOCUMENT = (Path(__file__).parents[2] / "docs" / "reports.md").read_text()


def defined(section: str) -> list[str]:
    """Return the names in the first column of a section's table."""
    text = DOCUMENT.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\|([^|]+)\|", text, re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def test_columns_are_defined() -> None:
    assert sorted(defined("Results")) == sorted([*FIRST, "seed", *OF_SUMMARY, *LAST])


def test_verdicts_are_defined() -> None:
    assert defined("Claims") == [verdict.value for verdict in Verdict]


def test_parts_of_the_json_document_are_named() -> None:
    text = DOCUMENT.partition("\n## JSON\n")[2].partition("\n## ")[0]
    fields = [field.encode_name for field in msgspec.structs.fields(GridReport)]
    assert [name for name in fields if f"`{name}`" not in text] == []


def test_budgets_are_named() -> None:
    assert "step, samples, energy" in DOCUMENT
    assert set(BUDGETS) == {"step", "samples", "seconds", "energy"}
