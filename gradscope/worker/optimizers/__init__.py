"""Optimizers: the catalogue's, any of torch.optim and pytorch_optimizer by name, and conjugate gradient descent."""

from gradscope.worker.optimizers.lookup import build_optimizer, needs_closure

__all__ = ["build_optimizer", "needs_closure"]
