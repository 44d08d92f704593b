"""Summaries with round numbers, for tests of comparisons, and made-up series of runs with noise like a machine's."""

import math
import random
from collections.abc import Sequence
from typing import Any

from gradscope.analysis.unlike import Side, Taken
from gradscope.core.statistics import spread
from gradscope.core.status import Status
from gradscope.core.summary import Audit, Duration, Identity, Loss, Memory, Provenance, Summary, Time

MIB = 1024 * 1024
SHARES = {"data": 0.1, "forward": 0.3, "backward": 0.4, "optimizer": 0.15, "other": 0.05}


def made(
    run_id: str = "20270115T080000Z-0a1b2c",
    step_ms: float = 100.0,
    *,
    shares: dict[str, float] | None = None,
    loss: float = 2.0,
    memory: dict[str, Any] | None = None,
    created: int | None = 0,
    status: Status = Status.DONE,
    steps: int = 4,
    host: str = "here",
    torch: str = "2.13.0",
    **who: Any,
) -> Summary:
    """A run of `steps` steps of 0.9, 1, 1 and 1.1 times `step_ms`, 8 rows each: parameters 4, gradients 4, optimizer
    state 8, activations 14 of a peak of 32 MiB."""
    walls = [step_ms * factor for factor in (0.9, 1.0, 1.0, 1.1)][:steps]
    shares = shares or SHARES
    identity: dict[str, Any] = {
        "preset": "quick",
        "model": "vit",
        "scale": "tiny",
        "parameters": 1000,
        "optimizer": "adam",
        "strategy": "standard",
        "micro_steps": 1,
        "batch_rows": 8,
        "precision": "fp32",
        "seed": 7,
        "threads": 2,
        "device": "cpu",
        "device_name": "Test CPU",
    }
    sizes: dict[str, Any] = {
        "parameters_bytes": 4 * MIB,
        "gradients_bytes": 4 * MIB,
        "optimizer_state_bytes": 8 * MIB,
        "inputs_bytes": 1 * MIB,
        "peak_activations_bytes": 14 * MIB,
        "allocated_peak_bytes": 32 * MIB,
        "allocated_peak_source": "one memory step",
    }
    seconds = sum(walls) / 1000
    return Summary(
        run_id=run_id,
        status=status,
        identity=Identity(**(identity | who)),
        provenance=Provenance(host=host, created_wall_ns=created, versions={"torch": torch}),
        duration=Duration(measured_steps=steps, samples=8 * steps, measured_seconds=seconds),
        loss=Loss(first=4.0, last=loss, minimum=loss, curve=[(1, 4.0), (2, 3.0), (3, 2.5), (4, loss)])
        if steps
        else Loss(),
        time=Time(
            step_ms=spread(walls),
            phase_ms={name: found for name, share in shares.items() if (found := spread(w * share for w in walls))},
            phase_share=shares,
            samples_per_second=8 * steps / seconds,
        )
        if steps
        else Time(),
        memory=Memory(**(sizes | (memory or {}))),
        audit=Audit(error=0.0, bound=1e-6, passed=True),
    )


def side(name: str, *runs: Summary, settings: dict[str, Any] | None = None) -> Side:
    return Side(name=name, runs=tuple(Taken(summary=run, settings=settings or {}) for run in runs))


def alternated(a_ms: Sequence[float], b_ms: Sequence[float], **b_fields: Any) -> tuple[Side, Side]:
    """Two sides whose runs were made in the order A B B A A B ..., seeds counted up."""
    a_runs, b_runs = [], []
    for index, (a, b) in enumerate(zip(a_ms, b_ms, strict=True)):
        first, second = (2 * index, 2 * index + 1) if index % 2 == 0 else (2 * index + 1, 2 * index)
        a_runs.append(made(f"a{index}", a, created=first, seed=index))
        b_runs.append(made(f"b{index}", b, created=second, seed=index, **b_fields))
    return side("A", *a_runs), side("B", *b_runs)


def noisy_pairs(pick: random.Random, pairs: int, effect: float, kind: str) -> tuple[list[float], list[float]]:
    """Step times of alternated runs, as factors; steps of a run share its fate, which is why runs are the unit.

    `quiet`: 3 % from run to run. `drift`: the machine gets slower and faster by 20 %, neighbours alike. `bursts`: one
    run in five coincides with foreign work and takes up to twice as long.
    """
    drift = pick.gauss(0, 0.2)
    found: dict[str, list[float]] = {"a": [], "b": []}
    for index in range(pairs):
        for name in "ab" if index % 2 == 0 else "ba":
            drift = 0.8 * drift + pick.gauss(0, 0.12)
            noise = pick.gauss(0, 0.03) + (drift if kind == "drift" else 0.0)
            if kind == "bursts" and pick.random() < 0.2:
                noise += math.log(pick.uniform(1.1, 2.0))
            found[name].append(math.exp(noise) * (effect if name == "b" else 1.0))
    return found["a"], found["b"]
