"""Does `gradscope compare --repeat 5 --fail-if "step_time_p5_ms > 5%"` find a step slower by half, and nothing else?

Each trial makes 5 rounds of ordinary runs in turn (A B C C B A ...) of a small `py:` model: B equals A, C does half as
much work again. The gate is asked for B against A and for C against A; both share A's runs. The bar, for 20 trials:
C fails 20 times, B is never called slower. A trial is 15 runs, all forked from one warm process, as the command forks
its own.

Beside it the gate over the median step: on a machine that others use, it needs more pairs than five. Foreign work only
makes steps longer, and the fastest steps of a run hardly meet any.

Usage: python benchmarks/gate.py [--trials 20] [--updates 200]
"""

import argparse
import math
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from gradscope.analysis.comparison import compare
from gradscope.analysis.gate import Judged, Outcome, evaluate, parse
from gradscope.analysis.quantities import QUANTITIES
from gradscope.analysis.unlike import Side
from gradscope.analysis.verdict_runs import Difference, Verdict
from gradscope.cli.compare_repeat import run_in_turn
from gradscope.cli.display import Display
from gradscope.config.load import load_preset
from gradscope.config.schema import Preset
from gradscope.launch.starts import Starts

MODEL = Path(__file__).parent / "models" / "passes.py"
PASSES = {"A": 9, "B": 9, "C": 15}
"""What is not in the passes (data, the optimizer) takes as long as 2.5 of them: 15 take half as much again as 9."""
PAIRS = 5
LIMIT = "5%"


def preset(passes: int, updates: int) -> Preset:
    settings = [
        f"model.name=py:{MODEL}:make",
        f"model.options.passes={passes}",
        "data.batch_size=32",
        "optimizer.name=sgd",
        "optimizer.lr=0.01",
        f"budget.updates={updates}",
        "run.threads=1",
        "run.warmup=10",
        "profile.steps=0",
        "audit.enabled=false",
    ]
    return load_preset("quick", settings)


@dataclass
class Tally:
    """What became of all trials, for one number."""

    name: str
    caught: int = 0
    slower: int = 0
    failed: int = 0
    ratios: list[float] = field(default_factory=list)

    def take(self, a: Side, b: Side, c: Side) -> str:
        """Judge a trial and return its part of the line."""
        (equal, difference), (slow, found) = judged(self.name, a, b), judged(self.name, a, c)
        self.caught += slow.outcome is Outcome.FAILED
        self.slower += difference.verdict is Verdict.HIGHER
        self.failed += equal.outcome is Outcome.FAILED
        value = QUANTITIES[self.name].value
        pairs = zip(map(value, a.summaries), map(value, b.summaries), strict=True)
        self.ratios += [math.log(other / one) for one, other in pairs if one and other]
        return f"{told(equal, difference)}   {told(slow, found)}"


def judged(name: str, a: Side, b: Side) -> tuple[Judged, Difference]:
    found = compare([a, b])
    difference = found.differences[name][1]
    assert difference is not None
    [outcome] = evaluate([parse(f"{name} > {LIMIT}")], found)
    return outcome, difference


def told(outcome: Judged, difference: Difference) -> str:
    half = 0.0 if difference.half_width is None else difference.half_width
    return f"{100 * (difference.relative or 0.0):+6.1f} % ±{100 * half:5.1f} {outcome.outcome.value:9}"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--trials", type=int, default=4)
    options.add_argument("--updates", type=int, default=200)
    chosen = options.parse_args()
    presets = [(name, preset(passes, chosen.updates)) for name, passes in PASSES.items()]
    tallies = [Tally("step_time_p5_ms"), Tally("step_time_ms")]
    print(f"{PAIRS} alternated pairs, gates: {', '.join(f'{tally.name} > {LIMIT}' for tally in tallies)}")
    heads = [f"{tally.name}: equal, then slower by half".ljust(55) for tally in tallies]
    print(f"trial   {'  |  '.join(heads)}  |  seconds")
    with Starts() as starts:
        for trial in range(1, chosen.trials + 1):
            begun = time.monotonic()
            with tempfile.TemporaryDirectory() as out:
                made = run_in_turn(presets, PAIRS, Path(out), Display(quiet=True), starts)
                line = "  |  ".join(tally.take(*made.sides).ljust(55) for tally in tallies)
            if made.exit_code:
                return made.exit_code
            print(f"{trial:5}   {line}  |  {time.monotonic() - begun:7.1f}", flush=True)
    for tally in tallies:
        noise = 100 * statistics.pstdev(tally.ratios)
        print(f"\n{tally.name}: equal pairs differ by {noise:.1f} % (standard deviation of log ratios)")
        print(f"  slower by half: failed {tally.caught} of {chosen.trials}   (bar, for p5: all)")
        print(f"  equal: called slower {tally.slower} of {chosen.trials}, failed {tally.failed}   (bar: none)")
    caught = tallies[0].caught == chosen.trials
    return 0 if caught and not any(tally.slower or tally.failed for tally in tallies) else 1


if __name__ == "__main__":
    sys.exit(main())
