"""All of `gradscope trace` as one strict JSON document; docs/traces.md defines its fields.

Times are integers in nanoseconds, sizes are bytes, missing is null. What a name means never changes within a `schema`.
"""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import polars as pl

from gradscope.trace.answers import Answers, is_usable

SCHEMA = 1

Part = Callable[[Answers], Any]


def document(answers: Answers, views: list[str] | None = None) -> dict[str, Any]:
    """Return what `--json` prints.

    Args:
        answers: Of the trace that is shown.
        views: Parts; `None`: all.
    """
    trace, meta, target = answers.trace, answers.trace.metadata, answers.loaded.target
    found: dict[str, Any] = {
        "schema": SCHEMA,
        "kind": target.kind,
        "run_id": target.run_id,
        "path": None if trace.path is None else str(trace.path),
        "size_bytes": answers.loaded.size_bytes,
        "paths": [str(path) for path in answers.loaded.paths],
        "events": trace.events.height,
        "usable": is_usable(trace),
        "rank": answers.rank,
        "world_size": meta.world_size,
        "worker": meta.worker,
        "devices": meta.devices,
        "has_device_events": trace.has_device_events,
        "legacy": meta.legacy,
        "gradscope_run": meta.gradscope_run,
        "base_time_ns": meta.base_time_ns,
        "start_us": trace.start_us,
        "notes": [asdict(note) for note in answers.notes],
    }
    for name, part in PARTS.items():
        if views is None or name in views:
            found[name] = part(answers)
    return found


def rows(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Return a frame as one object a row."""
    return frame.to_dicts()


def _overview(answers: Answers) -> dict[str, Any]:
    found = answers.steps
    return {
        "steps": found.count,
        "complete_steps": found.complete_count,
        "mean": found.mean,
        "whole": next(iter(rows(found.whole)), None),
        "devices": rows(found.totals),
    }


def _steps(answers: Answers) -> dict[str, Any]:
    found = answers.steps
    return {
        "count": found.count,
        "table": rows(found.table),
        "devices": rows(found.devices),
        "windows": rows(found.windows),
    }


def _phases(answers: Answers) -> dict[str, Any]:
    found = answers.phases
    return {"source": found.source, "totals": rows(found.totals), "table": rows(found.table)}


def _idle(answers: Answers) -> dict[str, Any]:
    found = answers.idle
    return {
        "by_kind": rows(found.by_kind),
        "by_step": rows(found.by_step),
        "per_stream": rows(found.per_stream),
        "longest": rows(found.longest),
    }


def _communication(answers: Answers) -> dict[str, Any]:
    found = answers.communication
    return {
        "side": found.side,
        "communication_ns": found.communication_ns,
        "overlap_ns": found.overlap_ns,
        "overlap_pct": found.overlap_pct,
        "by_step": rows(found.by_step),
        "collectives": rows(found.collectives),
    }


def _ranks(answers: Answers) -> dict[str, Any] | None:
    """Stragglers; null where there are no several ranks."""
    if len(answers.loaded.traces) < 2:
        return None
    found = answers.stragglers
    return {
        "ranks": rows(found.ranks),
        "by_step": rows(found.by_step),
        "stragglers": rows(found.stragglers),
        "notes": [asdict(note) for note in found.notes],
    }


def _memory(answers: Answers) -> dict[str, Any]:
    devices = []
    for device in answers.memory.devices:
        plain = {name: getattr(device, name) for name in device.__slots__ if name not in ("curve", "notes")}
        frames = {name: rows(value) for name, value in plain.items() if isinstance(value, pl.DataFrame)}
        devices.append({**plain, **frames, "notes": [asdict(note) for note in device.notes]})
    return {"devices": devices, "missing": answers.memory.missing}


def _findings(answers: Answers) -> dict[str, Any]:
    found = answers.findings
    return {
        "found": [asdict(one) for one in found.found],
        "calm": [asdict(one) for one in found.calm],
        "unjudged": [asdict(one) for one in found.unjudged],
    }


PARTS: dict[str, Part] = {
    "overview": _overview,
    "phases": _phases,
    "operators": lambda answers: rows(answers.operators),
    "kernels": lambda answers: rows(answers.kernels),
    "modules": lambda answers: rows(answers.modules.frame),
    "steps": _steps,
    "idle": _idle,
    "communication": _communication,
    "ranks": _ranks,
    "memory": _memory,
    "findings": _findings,
}
"""Parts by the name of the view that shows them."""
