"""What can be wrong with `[[claim]]`s."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gradscope.config.check import nearest_key, type_of
from gradscope.config.convert import preset_to_dict
from gradscope.config.problem import Problem, shown
from gradscope.config.schema import Claim, Preset
from gradscope.config.sweep import setting_problems

METRIC = re.compile(r"[a-z][a-z0-9_.]*")


def claim_problems(preset: Preset) -> Iterator[Problem]:
    """Yield what is wrong with a preset's claims: names, bounds, and the settings that pick cells."""
    base = preset_to_dict(preset) if preset.claim else {}
    first: dict[str, int] = {}
    for index, claim in enumerate(preset.claim):
        where = f"claim[{index}]"
        if not claim.name.strip():
            yield Problem(keys=(f"{where}.name",), found=shown(claim.name), allowed="a short name")
        if first.setdefault(claim.name, index) != index:
            yield Problem(
                keys=(f"{where}.name", f"claim[{first[claim.name]}].name"),
                found=f"{shown(claim.name)} twice",
                allowed="a name of its own for each claim",
            )
        if not METRIC.fullmatch(claim.metric):
            yield Problem(
                keys=(f"{where}.metric",),
                found=shown(claim.metric),
                allowed="a column of the results, such as loss_last",
            )
        yield from _bounds(where, claim)
        if claim.denominator == {}:
            yield Problem(
                keys=(f"{where}.denominator",),
                found="an empty table",
                allowed="at least one setting to compare with, or no denominator",
            )
        for name in ("subset", "numerator", "denominator"):
            yield from _picks(f"{where}.{name}", getattr(claim, name) or {}, base)


def _bounds(where: str, claim: Claim) -> Iterator[Problem]:
    keys = (f"{where}.at_least", f"{where}.at_most")
    if claim.at_least is None and claim.at_most is None:
        yield Problem(keys=keys, found="neither", allowed="at least one bound")
    elif claim.at_least is not None and claim.at_most is not None and claim.at_least > claim.at_most:
        yield Problem(
            keys=keys, found=f"{claim.at_least:g} and {claim.at_most:g}", allowed="a lower bound below the upper one"
        )


def _picks(where: str, settings: Mapping[str, Any], base: Mapping[str, Any]) -> Iterator[Problem]:
    for key, value in settings.items():
        if type_of(key) is None:
            yield Problem(
                keys=(f"{where}.{key}",),
                found=f"the key {shown(key)}",
                allowed="a dotted key of a preset",
                hint=nearest_key(key),
            )
            continue
        for item in value if isinstance(value, list) else [value]:
            yield from setting_problems(f"{where}.{key}", key, item, base)
