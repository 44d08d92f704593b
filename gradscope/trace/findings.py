"""Findings: named rules over a trace, each with its evidence, the saving to expect and the remedy.

A rule is a function of the facts and the thresholds; adding one is a function and a line in `RULES`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from gradscope.trace import rules_device, rules_host
from gradscope.trace.facts import Facts
from gradscope.trace.finding import Calm, Finding, Unjudged, Verdict
from gradscope.trace.frames import Trace
from gradscope.trace.memory_timeline import MemoryAnswer
from gradscope.trace.steps import StepsAnswer, steps
from gradscope.trace.thresholds import DEFAULT, Thresholds

Rule = Callable[[Facts, Thresholds], Verdict]

RULES: dict[str, Rule] = {
    "input-bound": rules_host.input_bound,
    "small-kernels": rules_device.many_small_kernels,
    "synchronisation": rules_device.synchronisation,
    "tensor-cores": rules_device.tensor_cores,
    "optimizer": rules_host.optimizer,
    "recomputation": rules_host.recomputation,
    "allocator-churn": rules_host.allocator_churn,
    "device-idle": rules_device.idle_device,
}
"""Rules by name, in the order in which calm and unjudged ones are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What all rules say of a trace."""

    found: list[Finding]
    """Largest saving first, unknown savings last."""
    calm: list[Calm]
    unjudged: list[Unjudged]


def findings(
    trace: Trace,
    *,
    answer: StepsAnswer | None = None,
    memory_answer: MemoryAnswer | None = None,
    thresholds: Thresholds = DEFAULT,
) -> Findings:
    """Ask every rule.

    Args:
        trace: Loaded with shapes for the types of matrix products.
        answer: `steps(trace)`, where it is at hand.
        memory_answer: `memory(trace)`, where it is at hand.
        thresholds: From where on something is a finding.
    """
    facts = Facts(trace, answer if answer is not None else steps(trace), memory_answer)
    if not facts.window_ns:
        reason = "nothing ran in this trace"
        return Findings(found=[], calm=[], unjudged=[Unjudged(rule=name, reason=reason) for name in RULES])
    verdicts = [rule(facts, thresholds) for rule in RULES.values()]
    found = [verdict for verdict in verdicts if isinstance(verdict, Finding)]
    found.sort(key=lambda one: -1.0 if one.saving_pct is None else one.saving_pct, reverse=True)
    return Findings(
        found=found,
        calm=[verdict for verdict in verdicts if isinstance(verdict, Calm)],
        unjudged=[verdict for verdict in verdicts if isinstance(verdict, Unjudged)],
    )
