"""`docs/exports.md` defines every exported column and format and no other; no field of a record is left out."""

import re
from pathlib import Path

import msgspec

from gradscope.core.events import PHASES, Phases, Step
from gradscope.core.samples import GpuSample, HostSample, Sample
from gradscope.export.columns import FIELDS, OF_STEP, SAMPLE_COLUMNS, STEP_COLUMNS
from gradscope.export.formats import FORMATS

DOCUMENT = (Path(__file__).parents[2] / "docs" / "exports.md").read_text()


def defined(section: str) -> list[str]:
    """Return the names in the first column of a section's table."""
    text = DOCUMENT.partition(f"\n{section}")[2].partition("\n## ")[0]
    cells = re.findall(r"^\|([^|]+)\|", text, re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def test_columns_of_steps_are_defined() -> None:
    assert set(defined("## Steps")) == set(STEP_COLUMNS)
    assert len(defined("## Steps")) == len(STEP_COLUMNS)


def test_columns_of_samples_are_defined_in_order() -> None:
    assert defined("## Samples") == list(SAMPLE_COLUMNS)


def test_formats_are_defined_in_order() -> None:
    assert defined("| `--to` |") == list(FORMATS)


def test_no_field_of_a_record_is_forgotten() -> None:
    named = {field.encode_name for field in msgspec.structs.fields(Step)}
    assert named == set(OF_STEP) | {"phases"}
    assert set(Phases.__struct_fields__) == set(PHASES)
    for kind, fields in FIELDS.items():
        assert list(fields) == list(kind.__struct_fields__)
    assert set(FIELDS) == {HostSample, GpuSample}
    assert set(Sample.__struct_fields__) - {"host", "gpus"} <= set(SAMPLE_COLUMNS)
