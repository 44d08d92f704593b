"""`docs/metrics.md` claims to define all of `summary.json`, in its order: no field is forgotten when one is added."""

import re
from pathlib import Path

import msgspec

from gradscope.core.summary import Summary

DOCUMENT = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
NAMED = set(re.findall(r"`([a-z_0-9]+)`", DOCUMENT))


def fields(kind: msgspec.inspect.Type) -> set[str]:
    """Return the names of all fields of a record and of its own records."""
    if isinstance(kind, msgspec.inspect.StructType):
        inner = [name for field in kind.fields for name in fields(field.type)]
        return {field.encode_name for field in kind.fields} | set(inner)
    if isinstance(kind, msgspec.inspect.UnionType):
        return set().union(*map(fields, kind.types))
    return fields(kind.item_type) if isinstance(kind, msgspec.inspect.ListType) else set()


def test_every_field_is_named() -> None:
    assert fields(msgspec.inspect.type_info(Summary)) - NAMED == set()


def test_sections_come_in_the_order_of_the_file() -> None:
    heads = re.findall(r"`([a-z]+)`", "".join(re.findall(r"^## .*$", DOCUMENT, re.MULTILINE)))
    assert heads == list(Summary.__struct_fields__)[-len(heads) :]
