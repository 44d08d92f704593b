"""Memory strategies: each module has a `STRATEGY`; the catalogue says which module a preset's name means."""

from importlib import import_module

from gradscope.config.catalogue import STRATEGIES
from gradscope.errors import GradscopeError
from gradscope.worker.contract import Strategy


def get_strategy(name: str) -> Strategy:
    """Return the strategy of the catalogue's entry `name`.

    Raises:
        GradscopeError: There is no such entry.
    """
    entry = STRATEGIES.get(name)
    if entry is None:
        raise GradscopeError(f"no memory strategy is called {name!r}", f"choose one of {', '.join(STRATEGIES)}")
    module, attribute = entry.target.split(":")
    strategy = getattr(import_module(module), attribute)
    assert isinstance(strategy, Strategy), entry.target
    return strategy
