"""Gradient accumulation: `accumulate_gradient` sums the micro-batches, so the module itself stays as it is."""

from gradscope.worker.contract import Strategy

STRATEGY = Strategy(name="accumulate", accumulates=True)
