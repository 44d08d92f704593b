"""Activation checkpointing within each of the accumulated micro-batches."""

from gradscope.worker.contract import Strategy
from gradscope.worker.strategies.blocks import checkpoint_blocks, restore_blocks

STRATEGY = Strategy(
    name="checkpoint-accumulate", accumulates=True, checkpoints=True, apply=checkpoint_blocks, remove=restore_blocks
)
