"""Records of a run turned into columns, a batch at a time: eight bytes a number, however many there are."""

from __future__ import annotations  # array cannot be subscripted while a module is loaded before Python 3.12

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isnan, nan
from operator import attrgetter
from typing import Any

from gradscope.core.events import PHASES, Stage, Step, Totals
from gradscope.core.samples import GpuSample, HostSample, Sample
from gradscope.core.statistics import quantile
from gradscope.tui.view import GPU_COLUMNS, HOST_COLUMNS, STAGES, STEP_COLUMNS, Columns, Measured, Table

THIN_AFTER_ROWS = 200_000
"""Samples past this many (five and a half hours at ten a second) are put together, so that a week fits too."""

THIN_TO_ONE_IN = 10

MOST_CARDS = 64

MOST_COVERED = 100
"""Steps that one record can stand for in the median; a damaged record may claim any number."""

OF_STEP = ("step", "t_ns", "covers", "wall_ms", "loss", "samples", "tokens", "allocated_peak_bytes", "reserved_bytes")
"""Columns that are an attribute of `Step`."""

OF_HOST = tuple(name for name in HOST_COLUMNS if name not in ("t_ns", "step"))
OF_CARD = tuple(name for name in GPU_COLUMNS if name != "throttled")

Numbers = Mapping[str, Sequence[float]]
"""New rows by column."""

STAGE_INDEX = {stage: index for index, stage in enumerate(STAGES)}
MEASURE = Stage.MEASURE  # looking a member up in its class a hundred thousand times is slow

NO_HOST = HostSample()
NO_CARD = GpuSample(uuid="")


def column(values: Iterable[float | None]) -> array[float]:
    """Return numbers as a column holds them.

    Raises:
        OverflowError: One is beyond any float; found out here, before anything is added anywhere.
    """
    known = list(values)
    try:
        return array("d", known)  # type: ignore[arg-type]  # the usual case: none is missing
    except TypeError:
        return array("d", [nan if value is None else value for value in known])


def in_batches(records: Sequence[Any], add: Callable[[Sequence[Any]], None]) -> int:
    """Add records together; if one of them holds a number beyond any float, each on its own. Returns how many do."""
    try:
        add(records)
    except OverflowError:
        if len(records) == 1:
            return 1
        return sum(in_batches([record], add) for record in records)
    return 0


class StepTable:
    """The steps of a run, and what is said of all of them."""

    def __init__(self) -> None:
        self.damaged = 0
        """Records that hold a number no measurement gives."""
        self._table = Table(STEP_COLUMNS)
        self._measured_ms: list[float] = []
        self._sums: dict[str, float] = {}
        self._losses: tuple[float, float, float] | None = None
        self._sorted = True

    def take(self, steps: Sequence[Step]) -> None:
        """Add steps, in the order of their records."""
        self.damaged += in_batches(steps, self._add)

    def columns(self) -> Columns:
        """Return `STEP_COLUMNS`."""
        return self._table.columns()

    def median_ms(self) -> float | None:
        """Return the median duration of the measured steps; `None` before the first."""
        if not self._sorted:
            self._measured_ms.sort()  # the old ones are in order already: this is little more than a merge
            self._sorted = True
        return quantile(self._measured_ms, 0.5) if self._measured_ms else None

    def measured(self, totals: Totals | None) -> Measured | None:
        """Return the measured steps together; their count and time as the worker's own `totals` have them, if any."""
        sums = self._sums
        if not sums:
            return None
        first, last, lowest = self._losses or (None, None, None)
        return Measured(
            steps=totals.steps if totals else round(sums["covers"]),
            seconds=totals.seconds if totals else sums["wall_ms"] / 1000,
            samples=totals.samples if totals else sums["samples"],
            tokens=totals.tokens if totals else sums.get("tokens"),
            wall_ms=sums["wall_ms"],
            phase_ms={name: sums[name] for name in PHASES if name in sums},
            first_loss=first,
            last_loss=last,
            lowest_loss=lowest,
        )

    def _sum_up(self, steps: Sequence[Step]) -> None:
        sums = self._sums
        for step in steps:
            covers = step.covers
            for name, value in (("covers", 1), ("wall_ms", step.wall_ms), ("samples", step.samples)):
                sums[name] = sums.get(name, 0.0) + value * covers
            if step.tokens is not None:
                sums["tokens"] = sums.get("tokens", 0.0) + step.tokens * covers
            for name in PHASES:
                value = getattr(step.phases, name)
                if value is not None:
                    sums[name] = sums.get(name, 0.0) + value * covers
            loss = step.loss
            if loss is not None:
                first, _, lowest = self._losses or (loss, loss, loss)
                self._losses = (first, loss, min(lowest, loss))

    def _add(self, steps: Sequence[Step]) -> None:
        phases = [step.phases for step in steps]
        columns = {name: column(map(attrgetter(name), steps)) for name in OF_STEP}
        columns |= {name: column(map(attrgetter(name), phases)) for name in PHASES}
        columns["stage"] = column(STAGE_INDEX[step.stage] for step in steps)
        self._table.extend(len(steps), columns)
        measured = [step for step in steps if step.stage is MEASURE]
        for step in measured:
            self._measured_ms += [step.wall_ms] * max(1, min(step.covers, MOST_COVERED))
        self._sorted = self._sorted and not measured
        self._sum_up(measured)


class SampleTables:
    """What was sampled of the host and of each card."""

    def __init__(self) -> None:
        self.damaged = 0
        self.core_busy_pct: tuple[float, ...] = ()
        """Of each core, as last sampled."""
        self.throttle: dict[str, tuple[str, ...]] = {}
        """Reasons that hold a card's clocks down, as last sampled, by UUID."""
        self._host = Table(HOST_COLUMNS)
        self._cards: dict[str, Table] = {}
        self._last_t_ns = -(1 << 63)
        self._waiting: list[Sample] = []

    def take(self, samples: Iterable[Sample]) -> None:
        """Add samples; one that is not later than the one before was there already."""
        new: list[Sample] = []
        for sample in samples:
            if sample.t_ns > self._last_t_ns:
                self._last_t_ns = sample.t_ns
                new.append(sample)
        self._note_last(new)
        room = max(0, THIN_AFTER_ROWS - self._host.count)
        self.damaged += in_batches(new[:room], self._add)
        self._waiting += new[room:]
        whole = len(self._waiting) // THIN_TO_ONE_IN * THIN_TO_ONE_IN
        for start in range(0, whole, THIN_TO_ONE_IN):
            self.damaged += in_batches(self._waiting[start : start + THIN_TO_ONE_IN], self._add_as_one)
        del self._waiting[:whole]

    def host(self) -> Columns:
        """Return `HOST_COLUMNS`."""
        return self._host.columns()

    def cards(self) -> dict[str, Columns]:
        """Return `GPU_COLUMNS` by UUID."""
        return {uuid: table.columns() for uuid, table in self._cards.items()}

    def _note_last(self, samples: Sequence[Sample]) -> None:
        hosts = (sample.host for sample in reversed(samples) if sample.host is not None)
        cores = next((host.core_busy_pct for host in hosts if host.core_busy_pct is not None), None)
        if cores is not None:
            self.core_busy_pct = tuple(cores)
        for uuid in dict.fromkeys(card.uuid for sample in samples for card in sample.gpus):
            if uuid not in self._cards and len(self._cards) < MOST_CARDS:
                self._cards[uuid] = _empty_rows(self._host.count)
        for uuid in self._cards:
            cards = (_card(uuid, sample.gpus) for sample in reversed(samples))
            reasons = next((card.throttle for card in cards if card.throttle is not None), None)
            if reasons is not None:
                self.throttle[uuid] = tuple(reasons)

    def _add(self, samples: Sequence[Sample]) -> None:
        self._extend(len(samples), *self._columns(samples))

    def _add_as_one(self, samples: Sequence[Sample]) -> None:
        """Put samples into one row: of each figure the last that is there, since some come once a second only."""
        host, cards = self._columns(samples)
        self._extend(1, _last_row(host), {uuid: _last_row(columns) for uuid, columns in cards.items()})

    def _columns(self, samples: Sequence[Sample]) -> tuple[Numbers, dict[str, Numbers]]:
        hosts = [sample.host or NO_HOST for sample in samples]
        host = {name: column(map(attrgetter(name), hosts)) for name in OF_HOST}
        host |= {name: column(map(attrgetter(name), samples)) for name in ("t_ns", "step")}
        return host, {uuid: _card_columns(uuid, samples) for uuid in self._cards}

    def _extend(self, count: int, host: Numbers, cards: Mapping[str, Numbers]) -> None:
        self._host.extend(count, host)
        for uuid, columns in cards.items():
            self._cards[uuid].extend(count, columns)


def _card_columns(uuid: str, samples: Sequence[Sample]) -> Numbers:
    cards = [_card(uuid, sample.gpus) for sample in samples]
    columns = {name: column(map(attrgetter(name), cards)) for name in OF_CARD}
    columns["throttled"] = column(None if card.throttle is None else len(card.throttle) for card in cards)
    return columns


def _card(uuid: str, cards: Sequence[GpuSample]) -> GpuSample:
    for card in cards:
        if card.uuid == uuid:
            return card
    return NO_CARD


def _last_row(columns: Numbers) -> Numbers:
    """Return the last number that is there of each column."""
    return {
        name: [next((value for value in reversed(values) if not isnan(value)), nan)] for name, values in columns.items()
    }


def _empty_rows(count: int) -> Table:
    table = Table(GPU_COLUMNS)
    table.extend(count, {})
    return table
