"""A profiled window's trace, enriched: complete events, strict JSON, and counter tracks of memory, load and power.

Counters are single points, so gradscope adds nothing that could overlap a slice of torch's own. They lie on the trace's
axis by the clock pair that the worker took when the window opened: trace time = wall time - `baseTimeNanoseconds`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from gradscope.core.clock import ClockPair
from gradscope.core.events import AnyEvent, MemoryMeasured, ProfileEnded, ProfileStarted, WorkerStarted
from gradscope.core.samples import Sample, SampleLine
from gradscope.errors import GradscopeError
from gradscope.rundir.handle import RunHandle
from gradscope.trace.document import TraceDocument, read_document, write_document
from gradscope.trace.repair import Repairs

CATEGORY = "gradscope"
"""`cat` of every event that gradscope adds, by which a second enrichment finds and replaces them."""

MEMORY_SERIES = {
    "parameters": "parameters_bytes",
    "buffers": "buffers_bytes",
    "gradients": "gradients_bytes",
    "optimizer state": "optimizer_state_bytes",
    "inputs": "inputs_bytes",
    "saved activations": "saved_activations_bytes",
}


class Probe(msgspec.Struct):
    """What every event must have, as far as it has it."""

    ph: Any = None
    ts: Any = None
    pid: Any = None
    tid: Any = None
    name: Any = None
    cat: Any = None

    @property
    def is_complete(self) -> bool:
        """Whether a reader finds all it may rely on."""
        return (
            type(self.ph) is str
            and type(self.ts) in (int, float)
            and type(self.pid) in (int, str)
            and type(self.tid) in (int, str)
            and type(self.name) is str
        )


@dataclass(frozen=True, slots=True)
class Window:
    """One profiled window on both axes."""

    started: ProfileStarted
    ended: ProfileEnded

    @property
    def clocks(self) -> ClockPair:
        """The clock pair taken at its start."""
        return ClockPair(self.started.wall_ns, self.started.t_ns)

    def trace_us(self, monotonic_ns: float, base_time_ns: int) -> float:
        """Return where a monotonic time lies in the trace, in microseconds, kept within the window."""
        inside = min(max(int(monotonic_ns), self.started.t_ns), self.end_ns)
        return (self.clocks.to_wall_ns(inside) - base_time_ns) / 1000

    @property
    def end_ns(self) -> int:
        """Monotonic time at which it closed; writing the trace, which comes after, is not a part of it."""
        return self.clocks.to_monotonic_ns(self.ended.wall_ns)


def enrich_run(run_dir: Path) -> list[str]:
    """Enrich all traces of a run, in place. What could not be done is said, not raised: a run is more than its trace.

    Returns:
        Notes for the user.
    """
    handle = RunHandle(run_dir)
    events, samples, notes = handle.events(), handle.samples(), []
    for path in handle.traces():
        try:
            repairs = enrich_trace(path, events, samples)
        except (GradscopeError, OSError) as error:
            notes.append(f"{path.name} is as the profiler wrote it: {error}")
            continue
        if repairs:
            notes.append(mended(path.name, repairs))
    return notes


def mended(name: str, repairs: Repairs) -> str:
    """Return a sentence that says what was mended."""
    return f"{name} was mended: " + ", ".join(f"{count} x {kind}" for kind, count in sorted(repairs.items()))


def enrich_trace(path: Path, events: Sequence[AnyEvent], samples: Sequence[SampleLine]) -> Repairs:
    """Rewrite one trace: strict JSON in which every event has `ph`, `ts`, `pid` and `tid`, with counters added.

    Doing it twice gives what doing it once gives. The file is replaced by a rename; the old one stays if that fails.

    Args:
        path: The trace, in its run directory.
        events: The worker's; they say which window the file is of, and what its memory was.
        samples: The supervisor's.

    Returns:
        What had to be mended.

    Raises:
        GradscopeError: It is no trace.
        OSError: It cannot be written.
    """
    return _write(read_document(path), path, _window_of(path, events), events, samples)


def export_trace(path: Path, out: Path, events: Sequence[AnyEvent] = (), samples: Sequence[SampleLine] = ()) -> Repairs:
    """Write an enriched trace elsewhere; of a damaged one, what can be read. The trace itself stays as it is.

    Args:
        path: Any trace; whether it is a run's is told by `events`.
        out: Where to write; compressed if the name ends in `.gz`. Replaced by a rename.
        events: The worker's, where it is a run's.
        samples: The supervisor's.

    Returns:
        What had to be mended.

    Raises:
        GradscopeError: It is no trace, or nothing in it can be read.
        OSError: It cannot be written.
    """
    try:
        document = read_document(path)
    except GradscopeError as error:
        document = _damaged_document(path, error)
    return _write(document, out, _window_of(path, events), events, samples)


def _damaged_document(path: Path, damage: GradscopeError) -> TraceDocument:
    """Return the events that can be read of a trace that is no JSON document, or is a bare list of them."""
    from gradscope.trace.raw_events import RawEvents  # polars, which commands do not pay for before they need it

    found = RawEvents(path)
    events = list(found)
    if not events:
        raise damage
    repairs: Repairs = Counter({"no whole document": 1})
    if found.unreadable:
        repairs["unreadable event"] = found.unreadable
    return TraceDocument(found.header, events, repairs)


def _write(
    document: TraceDocument,
    out: Path,
    window: Window | None,
    events: Sequence[AnyEvent],
    samples: Sequence[SampleLine],
) -> Repairs:
    repairs: Repairs = Counter(document.repairs)
    added = [] if window is None else counters(document.base_time_ns, window, events, samples)

    def everything() -> Iterator[bytes | msgspec.Raw]:
        yield from _complete_events(document, repairs)
        for counter in added:
            yield msgspec.json.encode(counter)

    write_document(out, document.header, everything())
    return repairs


def _window_of(path: Path, events: Sequence[AnyEvent]) -> Window | None:
    ended = next((event for event in events if isinstance(event, ProfileEnded) and event.file == path.name), None)
    if ended is None:
        return None
    for event in events:
        if isinstance(event, ProfileStarted) and event.window == ended.window:
            return Window(event, ended)
    return None


def _complete_events(document: TraceDocument, repairs: Repairs) -> Iterator[bytes | msgspec.Raw]:
    """Yield torch's events, completed where they lack something; what has no phase or no time is left out."""
    decoder = msgspec.json.Decoder(Probe)
    last_ts: int | float = 0
    for raw in document.events:
        try:
            probe = decoder.decode(raw)
        except msgspec.ValidationError:  # not an object
            repairs["event without a phase"] += 1
            continue
        if probe.cat == CATEGORY:
            continue
        if probe.is_complete:
            last_ts = probe.ts
            yield raw
        elif type(probe.ph) is not str:
            repairs["event without a phase"] += 1
        elif type(probe.ts) not in (int, float) and probe.ph != "M":
            repairs["event without a time"] += 1
        else:
            repairs["incomplete event"] += 1
            yield _completed(raw, probe, last_ts)


def _completed(raw: msgspec.Raw, probe: Probe, last_ts: float) -> bytes:
    event: dict[str, Any] = msgspec.json.decode(raw)
    if type(probe.ts) not in (int, float):
        event["ts"] = last_ts  # metadata holds for the whole trace, whatever its time
    for key in ("pid", "tid"):
        if type(event.get(key)) not in (int, str):
            event[key] = 0
    if type(probe.name) is not str:
        event["name"] = ""
    return msgspec.json.encode(event)


def counters(
    base_time_ns: int, window: Window, events: Sequence[AnyEvent], samples: Sequence[SampleLine]
) -> list[dict[str, Any]]:
    """Return counter events for a window, in the order of time.

    Args:
        base_time_ns: What the trace's `ts` count from.
        window: The window.
        events: The worker's.
        samples: The supervisor's; those whose instant lies in the window count.
    """
    started = next((event for event in events if isinstance(event, WorkerStarted)), None)
    pid = started.pid if started else 0
    points = [
        *_memory_points(window, events),
        *(point for sample in samples if isinstance(sample, Sample) for point in _sample_points(window, sample)),
    ]
    return [
        {
            "ph": "C",
            "cat": CATEGORY,
            "name": name,
            "pid": pid,
            "tid": 0,
            "ts": window.trace_us(at_ns, base_time_ns),
            "args": values,
        }
        for at_ns, name, values in sorted(points, key=lambda point: point[0])
    ]


Point = tuple[float, str, dict[str, float]]
"""(monotonic ns, track, series and their values)."""


def _memory_points(window: Window, events: Sequence[AnyEvent]) -> Iterator[Point]:
    """Yield memory by category as carried over from a step before the window; the track's name says from which."""
    for event in reversed(events):
        if (
            isinstance(event, MemoryMeasured)
            and event.parameters_bytes is not None
            and event.t_ns <= window.started.t_ns
        ):
            found = {series: getattr(event, field) for series, field in MEMORY_SERIES.items()}
            values = {series: float(size) for series, size in found.items() if size is not None}
            yield window.started.t_ns, f"memory by category, bytes (carried over from step {event.step})", values
            return


def _sample_points(window: Window, sample: Sample) -> Iterator[Point]:
    """Yield one sample's figures: a share of time from the start of its interval, a level from its instant."""
    if not window.started.t_ns <= sample.t_ns <= window.end_ns:
        return
    since_ns = sample.t_ns - sample.interval_ms * 1e6
    host = sample.host
    if host and host.tree_cpu_pct is not None:
        yield since_ns, "CPU % (100 = one core)", {"process tree": host.tree_cpu_pct}
    if host and host.worker_resident_bytes is not None:
        yield sample.t_ns, "resident memory, bytes", {"training process": float(host.worker_resident_bytes)}
    for gpu in sample.gpus:
        which = f" {gpu.uuid}" if len(sample.gpus) > 1 else ""
        busy = {"GPU busy": gpu.gpu_busy_pct, "memory busy": gpu.memory_busy_pct}
        if known := {series: value for series, value in busy.items() if value is not None}:
            yield since_ns, f"GPU % of time{which}", known
        if gpu.power_w is not None:
            yield sample.t_ns, f"power, W{which}", {"power": gpu.power_w}
        if gpu.used_bytes is not None:
            yield sample.t_ns, f"device memory, bytes{which}", {"used": float(gpu.used_bytes)}
