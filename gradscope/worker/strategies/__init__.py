"""Memory strategies: each module has a `STRATEGY`; the catalogue says which module a preset's name means."""

from gradscope.config.catalogue import STRATEGIES
from gradscope.worker.contract import Strategy
from gradscope.worker.targets import load_target


def get_strategy(name: str) -> Strategy:
    """Return the strategy of the catalogue's entry `name`.

    Raises:
        GradscopeError: There is no such entry.
    """
    strategy: Strategy = load_target("memory strategy", name, STRATEGIES, {})
    return strategy
