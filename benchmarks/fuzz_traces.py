"""Whether damaged traces get answers or one clear error: never a traceback, a hang, or memory without end.

Mutates every fixture of `tests/cases/traces` (bytes, values, gzip) and makes lists of events out of any JSON, and asks
each file everything: loading, every answer, view, table and format, `--json`, SQL, comparison, cut. What is done to a
file follows from `--seed` and its number alone; `--only NUMBER` does one of them again and shows what it raises.

Usage: python benchmarks/fuzz_traces.py [--count N] [--seed N] [--only NUMBER] [--limit-s SECONDS]
"""

import argparse
import multiprocessing
import os
import resource
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # the mutations are those of the tests
os.environ.setdefault("POLARS_MAX_THREADS", "1")  # before polars is imported, here and in the workers

from tests.trace_gauntlet import ask_everything  # noqa: E402
from tests.trace_mutations import mutation, seeds  # noqa: E402

WORKERS = 2
SHOWN = 10
"""Failures that are told whole."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one mutation."""

    number: int
    kind: str
    outcome: str
    """`answered`, `refused`, `traceback`, `hang` or `died`."""
    seconds: float
    detail: str = ""
    peak_mib: float = 0.0


@dataclass(slots=True)
class Worker:
    """A process that does one mutation after the other, and what it is at."""

    process: BaseProcess
    line: Connection
    number: int | None = None
    begun: float = field(default_factory=time.monotonic)


def attempt(seed: int, number: int, folder: Path) -> Result:
    """Do one mutation in this process."""
    kind, content = mutation(seed, number)
    path = folder / "x.json"
    path.write_bytes(content)
    begun = time.perf_counter()
    detail = ""
    try:
        outcome = "answered" if ask_everything(path, folder, number // 4) else "refused"
    except Exception:  # whatever it is, it is what this script looks for
        outcome, detail = "traceback", traceback.format_exc()
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Result(number, kind, outcome, time.perf_counter() - begun, detail, peak_mib)


def work(line: Connection, seed: int) -> None:
    """Do what comes through the line until it ends."""
    with tempfile.TemporaryDirectory() as name:
        while (number := line.recv()) is not None:
            line.send(attempt(seed, number, Path(name)))


def started(seed: int) -> Worker:
    """Start a worker."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=work, args=(there, seed), daemon=True)
    process.start()
    there.close()
    return Worker(process, here)


def run(seed: int, count: int, limit_s: float) -> list[Result]:
    """Do all mutations in `WORKERS` processes; one that hangs or dies is replaced, and the others go on."""
    results: list[Result] = []
    numbers = iter(range(count))
    workers = [started(seed) for _ in range(WORKERS)]
    for worker in workers:
        give(worker, next(numbers, None))
    while busy := [worker for worker in workers if worker.number is not None]:
        ready = wait([worker.line for worker in busy], timeout=1.0)
        for worker in busy:
            result = outcome_of(worker, worker.line in ready, limit_s)
            if result is None:
                continue
            results.append(result)
            alive = worker
            if result.outcome in ("hang", "died"):
                alive = workers[workers.index(worker)] = started(seed)
            give(alive, next(numbers, None))
            if len(results) % 500 == 0:
                print(f"{len(results)} of {count}", file=sys.stderr, flush=True)
    for worker in workers:
        worker.process.join()
    return results


def give(worker: Worker, number: int | None) -> None:
    """Hand a worker its next mutation, or the end."""
    worker.number, worker.begun = number, time.monotonic()
    worker.line.send(number)


def outcome_of(worker: Worker, ready: bool, limit_s: float) -> Result | None:
    """Return what a worker has to tell, or that it will tell nothing any more; None while it is at work."""
    assert worker.number is not None
    seconds = time.monotonic() - worker.begun
    if ready:
        try:
            result = worker.line.recv()
        except EOFError:
            worker.process.join()
            return Result(worker.number, "", "died", seconds, f"exit code {worker.process.exitcode}")
        assert isinstance(result, Result)
        return result
    if seconds > limit_s:
        worker.process.kill()
        worker.process.join()
        return Result(worker.number, "", "hang", seconds)
    return None


def table(results: list[Result], seconds: float) -> None:
    """Print how many came to what end, by kind of damage."""
    outcomes = ("answered", "refused", "traceback", "died", "hang")
    counts = Counter((result.kind, result.outcome) for result in results)
    print(f"{'damage':<14}  mutations  right answers  clear errors  tracebacks  died  hangs")
    for kind in [*sorted({kind for kind, _ in counts}), None]:
        row = [sum(n for (k, o), n in counts.items() if o == outcome and kind in (k, None)) for outcome in outcomes]
        name = "all" if kind is None else kind or "(unknown)"
        print(f"{name:<14}  {sum(row):>9}  {row[0]:>13}  {row[1]:>12}  {row[2]:>10}  {row[3]:>4}  {row[4]:>5}")
    slowest = max(results, key=lambda result: result.seconds)
    peak_mib = max(result.peak_mib for result in results)
    print(
        f"\n{len(seeds())} fixtures; {seconds:.0f} s with {WORKERS} processes; slowest: number {slowest.number}", end=""
    )
    print(f", {slowest.seconds:.1f} s; largest process {peak_mib:.0f} MiB")


def main() -> None:
    """Print the table; exit with 1 after any traceback, hang or death."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="do this mutation alone, in this process")
    parser.add_argument("--limit-s", type=float, default=60, help="from when on a mutation counts as a hang")
    options = parser.parse_args()
    if options.only is not None:
        with tempfile.TemporaryDirectory() as name:
            result = attempt(options.seed, options.only, Path(name))
        print(f"{result.kind}: {result.outcome} after {result.seconds:.2f} s\n{result.detail}")
        sys.exit(result.outcome == "traceback")
    begun = time.perf_counter()
    results = run(options.seed, options.count, options.limit_s)
    table(results, time.perf_counter() - begun)
    bad = [result for result in results if result.outcome not in ("answered", "refused")]
    for result in bad[:SHOWN]:
        print(f"\nnumber {result.number} ({result.kind}): {result.outcome}\n{result.detail}")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
