"""Results of a grid with round numbers, for tests of reports: 2 models x 2 optimizers x 3 strategies; single rows."""

from typing import Any

from gradscope.analysis.results import Row
from gradscope.config.schema import Claim

MIB = 1 << 20

LOSSES = {
    ("vit", "sgd"): (2.0, 2.0, 1.0),
    ("vit", "adam"): (1.0, 1.0, 0.5),
    ("llama", "sgd"): (4.0, 4.0, 4.0),
    ("llama", "adam"): (5.0, 5.0, 2.5),
}
"""Of standard, checkpoint, accumulate."""

TIMES_MS = {
    ("vit", "sgd"): (100.0, 120.0, 400.0),
    ("vit", "adam"): (100.0, 150.0, 400.0),
    ("llama", "sgd"): (200.0, 240.0, 800.0),
    ("llama", "adam"): (200.0, 300.0, 800.0),
}

PEAKS_MIB = {
    ("vit", "sgd"): (40, 20, 44),
    ("vit", "adam"): (80, 40, 88),
    ("llama", "sgd"): (400, 100, 400),
    ("llama", "adam"): (800, 200, 800),
}

STRATEGIES = ("standard", "checkpoint", "accumulate")


def row(
    model: str = "vit",
    optimizer: str = "sgd",
    strategy: str = "standard",
    *,
    loss: float | None = 2.0,
    step_ms: float | None = 100.0,
    peak_mib: float | None = 40,
    seed: int = 0,
    status: str = "done",
    updates: int = 10,
    audit_passed: bool | None = True,
    within: tuple[float, float] = (1.0, 1.0),
    values: dict[str, float | None] | None = None,
    settings: dict[str, Any] | None = None,
    axes: dict[str, Any] | None = None,
    **fields: Any,
) -> Row:
    """One cell: batches of 8 rows, 4 of them an update where it accumulates. `within` is the middle half of its steps,
    as shares of their median."""
    k = 4 if "accumulate" in strategy else 1
    lr = {"sgd": 0.1, "adam": 0.001}.get(optimizer, 1.0)
    varied = {
        "model.name": model,
        "optimizer.name": optimizer,
        "optimizer.lr": lr,
        "memory.strategy": strategy,
        "memory.accumulate": 4 if k > 1 else None,
    } | (axes or {})
    preset: dict[str, Any] = {
        "name": "grid",
        "model": {"name": model, "scale": "tiny"},
        "data": {"name": "shapes", "batch_size": 8},
        "optimizer": {"name": optimizer, "lr": lr},
        "memory": {"strategy": strategy, "accumulate": 4 if k > 1 else None, "mode": "grow"},
        "budget": {"updates": updates, "samples": None, "seconds": None},
        "run": {"seed": seed, "threads": 1},
    }
    for table, extra in (settings or {}).items():
        preset[table] = preset[table] | extra
    figures: dict[str, float | None] = {
        "loss_last": loss,
        "step_time_ms": step_ms,
        "step_p25_ms": None if step_ms is None else step_ms * within[0],
        "step_p75_ms": None if step_ms is None else step_ms * within[1],
        "peak_memory_bytes": None if peak_mib is None else peak_mib * MIB,
        "updates": updates,
        "samples": 8 * k * updates,
        "measured_seconds": None if step_ms is None else updates * step_ms / 1000,
        "audit_error": 0.0,
        "parameters_bytes": 4 * MIB,
    }
    missing = status == "missing"
    made: dict[str, Any] = {
        "cell": f"{model}-{optimizer}-{strategy}-{seed}",
        "run_id": None if missing else f"run-{model}-{optimizer}-{strategy}-{seed}",
        "status": status,
        "axes": varied,
        "seed": seed,
        "values": {} if missing else figures | (values or {}),
        "audit_passed": audit_passed if status == "done" else None,
        "device": None if missing else "cpu",
        "device_name": None if missing else "Test CPU",
        "host": None if missing else "here",
        "settings": preset,
        "accumulation_mode": "grow" if k > 1 else None,
        "curve": [] if missing or loss is None else [(step + 3, loss * (updates - step)) for step in range(updates)],
    }
    return Row(**(made | fields))


def grid(**changed: dict[str, Any]) -> list[Row]:
    """All 12 cells; `changed` maps `model_optimizer_strategy` to what is different about a cell."""
    found = []
    for (model, optimizer), losses in LOSSES.items():
        for place, strategy in enumerate(STRATEGIES):
            fields: dict[str, Any] = {
                "loss": losses[place],
                "step_ms": TIMES_MS[model, optimizer][place],
                "peak_mib": PEAKS_MIB[model, optimizer][place],
            }
            found.append(
                row(model, optimizer, strategy, **(fields | changed.get(f"{model}_{optimizer}_{strategy}", {})))
            )
    return found


def claim(**fields: Any) -> Claim:
    """A claim on checkpointing's step time: median ratio to standard at most 1.3, no tolerance."""
    defaults: dict[str, Any] = {
        "name": "time",
        "text": "checkpointing costs at most 30 %",
        "metric": "step_time_ms",
        "numerator": {"memory.strategy": "checkpoint"},
        "denominator": {"memory.strategy": "standard"},
        "at_most": 1.3,
        "tolerance": 0.0,
    }
    return Claim(**(defaults | fields))
