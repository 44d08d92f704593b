"""The summary of a run: computed from its directory, kept in `summary.json`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from gradscope.analysis import resources, training
from gradscope.analysis.fold import RunRecord, fold
from gradscope.analysis.strangers import contamination
from gradscope.core.events import ProfileEnded, ProfileStarted, Stage
from gradscope.core.samples import Sample, SampleLine, SamplerNote, SamplerStarted
from gradscope.core.statistics import spread
from gradscope.core.status import StatusRecord
from gradscope.core.summary import NO_GPU, NO_TRACE, Audit, Identity, Provenance, Remark, Summary, Window
from gradscope.rundir.files import read_json, write_json
from gradscope.rundir.handle import RunHandle
from gradscope.rundir.layout import SUMMARY
from gradscope.rundir.manifest import Manifest


def summarise_run(run_dir: Path, verdict: StatusRecord | None = None) -> Summary:
    """Compute a run's summary and write it to its `summary.json`.

    Args:
        run_dir: The run directory.
        verdict: What the run came to, where `status.json` does not say it yet.

    Raises:
        OSError: The run directory cannot be written.
    """
    summary = compute(RunHandle(run_dir), verdict)
    write_json(run_dir / SUMMARY, summary)
    return summary


def update_trace_sizes(run_dir: Path) -> None:
    """Put the traces' sizes as they are now into a run's `summary.json`: enriching them comes after it was written.

    Raises:
        OSError: The run directory cannot be written.
    """
    kept = read_json(run_dir / SUMMARY, Summary)
    if kept is not None:
        write_json(run_dir / SUMMARY, _with_sizes(kept, run_dir))


def _with_sizes(summary: Summary, run_dir: Path) -> Summary:
    """Return the summary with the size that each trace has on disk; a trace that was deleted has none."""
    windows = [
        msgspec.structs.replace(window, file_bytes=_size_bytes(run_dir / window.file)) if window.file else window
        for window in summary.windows
    ]
    return msgspec.structs.replace(summary, windows=windows)


def _size_bytes(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def load_summary(run_dir: Path) -> Summary:
    """Return a run's summary: the file's where the run is over and has one, else computed now. Writes nothing.

    Status and notes are always those of `status.json` too, and a trace's size is that on disk: they may have come
    after the summary was written.
    """
    handle = RunHandle(run_dir)
    status = handle.status()
    kept = read_json(run_dir / SUMMARY, Summary) if status.status.is_final else None
    if kept is None:
        return _with_sizes(compute(handle, status), run_dir)
    later = [remark for remark in _supervisor_remarks(status) if remark not in kept.remarks]
    return _with_sizes(msgspec.structs.replace(kept, **_outcome(status), remarks=kept.remarks + later), run_dir)


def compute(handle: RunHandle, verdict: StatusRecord | None = None) -> Summary:
    """Compute a run's summary from its events and samples; also of a run that is not over, or was cut short."""
    return summarise(
        fold(handle.events()),
        handle.samples(),
        run_id=handle.run_id,
        preset_name=handle.preset_name,
        status=verdict or handle.status(),
        manifest=handle.manifest(),
    )


def summarise(
    record: RunRecord,
    lines: Sequence[SampleLine],
    *,
    run_id: str,
    preset_name: str,
    status: StatusRecord,
    manifest: Manifest | None = None,
) -> Summary:
    """Reduce a run to its summary. Pure: the same input gives the same output."""
    preset: dict[str, Any] = manifest.preset if manifest else {}
    who = identity(record, preset, preset_name)
    seen = resources.sampled(record, (line for line in lines if isinstance(line, Sample)))
    return Summary(
        run_id=run_id,
        **_outcome(status),
        identity=who,
        provenance=_provenance(record, manifest),
        duration=training.duration(record),
        loss=training.loss(record),
        time=training.time(record),
        memory=resources.memory(record, seen, foretold_peak_bytes=manifest.foretold_peak_bytes if manifest else None),
        utilization=resources.utilization(record, seen),
        energy=resources.energy(record, seen),
        flops=resources.flops(record, who.precision),
        audit=_audit(record),
        windows=_windows(record),
        snapshots=[snapshot.file for snapshot in record.snapshots if snapshot.file],
        remarks=_remarks(record, lines, status) + _no_trace(record, preset, status),
    )


def _outcome(status: StatusRecord) -> dict[str, Any]:
    return {
        "status": status.status,
        "reason": status.reason,
        "hint": status.hint,
        "exit_code": status.exit_code,
    }


def identity(record: RunRecord, preset: dict[str, Any], preset_name: str) -> Identity:
    """Say what was run. The preset is read leniently: it may be of another version."""
    built, started = record.built, record.started

    def setting(table: str, key: str) -> Any:
        found = preset.get(table)
        return found.get(key) if isinstance(found, dict) else None

    strategy = built.strategy if built else setting("memory", "strategy")
    model = built.model if built else setting("model", "name")
    return Identity(
        preset=preset_name,
        model=model,
        scale=None if ":" in (model or "") else setting("model", "scale"),  # only the catalogue's come in scales
        parameters=built.parameters if built else None,
        trainable_parameters=built.trainable_parameters if built else None,
        optimizer=setting("optimizer", "name") or (built.optimizer if built else None),
        learning_rate=setting("optimizer", "lr"),
        strategy=strategy,
        accumulation_mode=setting("memory", "mode") if built and built.micro_steps > 1 else None,
        micro_steps=built.micro_steps if built else None,
        batch_rows=built.batch_rows if built else None,
        precision=setting("run", "precision"),
        compiled=setting("run", "compile"),
        seed=setting("run", "seed"),
        threads=started.threads if started else setting("run", "threads"),
        device=started.device if started else setting("run", "device"),
        device_name=started.device_name if started else None,
        device_memory_bytes=started.device_memory_bytes if started else None,
    )


def _provenance(record: RunRecord, manifest: Manifest | None) -> Provenance:
    imported = record.started.versions if record.started else {}
    if manifest is None:
        return Provenance(versions=imported)
    return Provenance(
        host=manifest.host,
        created_wall_ns=manifest.created_wall_ns,
        argv=manifest.argv,
        git=manifest.git,
        versions=manifest.versions | imported,
    )


def _audit(record: RunRecord) -> Audit | None:
    audit = record.audit
    if audit is None:
        return None
    return Audit(
        error=audit.error,
        bound=audit.bound,
        passed=audit.passed,
        reason=audit.reason,
        without_gradient=audit.without_gradient,
        no_effect=audit.no_effect,
    )


def _windows(record: RunRecord) -> list[Window]:
    return [_window(record, window.started, window.ended) for window in record.windows]


def _window(record: RunRecord, started: ProfileStarted, ended: ProfileEnded | None) -> Window:
    steps = ended.steps if ended else started.steps
    of_it = range(started.first_step, started.first_step + steps)
    profiled = [step for step in record.steps[Stage.PROFILE] if step.step in of_it]
    return Window(
        window=started.window,
        first_step=started.first_step,
        steps=steps,
        step_ms=spread(step.wall_ms for step in profiled for _ in range(step.covers)),
        file=ended.file if ended else None,
        file_bytes=ended.file_bytes if ended else None,
        error=ended.error if ended else None,
        requested=started.requested,
        closed=ended is not None,
    )


def _remarks(record: RunRecord, lines: Sequence[SampleLine], status: StatusRecord) -> list[Remark]:
    """Collect what was said: by the worker, the sampler, the supervisor, and by this reader about gaps."""
    remarks = [Remark(code=note.code, message=note.message, step=note.step) for note in record.notes]
    remarks += [
        Remark(code="snapshot_failed", message=f"no memory snapshot: {snapshot.error}")
        for snapshot in record.snapshots
        if snapshot.error
    ]
    for line in lines:
        if isinstance(line, SamplerNote):
            remarks.append(Remark(code="sampler", message=line.message))
    remarks += contamination(lines)
    watched = [line for line in lines if isinstance(line, SamplerStarted)]
    if watched and watched[-1].no_gpu_reason:  # written anew once the worker is on its device: the last one holds
        remarks.append(Remark(code=NO_GPU, message=watched[-1].no_gpu_reason))
    remarks += _supervisor_remarks(status)
    if record.missing:
        message = f"{record.missing} records of the worker could not be read"
        remarks.append(Remark(code="events_missing", message=message))
    return remarks


def _supervisor_remarks(status: StatusRecord) -> list[Remark]:
    return [Remark(code="supervisor", message=note) for note in status.notes]


def _no_trace(record: RunRecord, preset: dict[str, Any], status: StatusRecord) -> list[Remark]:
    """Say why a run that is over never opened the window its preset asks for."""
    profile, budget = (table if isinstance(table := preset.get(name), dict) else {} for name in ("profile", "budget"))
    opened = any(not window.started.requested for window in record.windows)
    if not status.status.is_final or not profile.get("steps") or opened:
        return []
    if budget.get("updates") == 0 and record.totals is not None:
        return [Remark(code=NO_TRACE, message="the budget is 0 updates, so none was profiled")]
    return [Remark(code=NO_TRACE, message="the run ended before its profiled updates, which follow the budget")]
