"""Was a run alone on its card?"""

from collections.abc import Iterable

from gradscope.core.samples import Sample, SampleLine
from gradscope.core.summary import Remark

CONTAMINATED = "contaminated"
"""Code of the remark that another process computed on the run's card: its figures are not the run's alone."""

MOST_NAMED = 5


def contamination(lines: Iterable[SampleLine]) -> list[Remark]:
    """Return one remark on who else was on the run's card, or none."""
    others: dict[str, None] = {}
    for line in lines:
        if isinstance(line, Sample):
            for card in line.gpus:
                others |= dict.fromkeys(card.foreign or ())
    if not others:
        return []
    named = ", ".join([*list(others)[:MOST_NAMED], *(["..."] if len(others) > MOST_NAMED else [])])
    return [Remark(code=CONTAMINATED, message=f"other processes computed on the card during the run: {named}")]
