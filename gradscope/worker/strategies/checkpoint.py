"""Activation checkpointing: a block keeps its inputs only, and runs again in backward."""

from gradscope.worker.contract import Strategy
from gradscope.worker.strategies.blocks import checkpoint_blocks, restore_blocks

STRATEGY = Strategy(name="checkpoint", checkpoints=True, apply=checkpoint_blocks, remove=restore_blocks)
