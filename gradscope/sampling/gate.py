"""Whether a figure of a card is still worth asking for, and what is said about it when it is not."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from gradscope.sampling.backoff import Backoff
from gradscope.sampling.nvml import Kind, Trouble

Answer = TypeVar("Answer")

Say = Callable[[str], None]
"""Takes a sentence for the run's notes. Whoever implements it says each sentence once."""


class CardLost(Exception):  # noqa: N818  a signal between two functions of this package, no error of anybody's
    """The driver answered that a card is gone."""


@dataclass(slots=True)
class Gate:
    """One figure of one card. What the card does not support is asked for once, what failed is asked for later."""

    card: str
    """How the card is called in notes."""
    figure: str
    say: Say
    closed_by: Kind | None = None
    """Set once the card or the driver does not have the figure, or does not show it to us."""
    _backoff: Backoff = field(default_factory=Backoff)

    def ask(self, now_ns: int, call: Callable[[], Answer | Trouble]) -> Answer | None:
        """Return the figure, or `None` where there is none now.

        Raises:
            CardLost: the driver says that the card is gone.
        """
        if self.closed_by is not None or not self._backoff.ready(now_ns):
            return None
        answer = call()
        if not isinstance(answer, Trouble):
            self._backoff.succeeded()
            return answer
        if answer.kind is Kind.LOST:
            raise CardLost(answer.text)
        if answer.kind is Kind.FAILED:
            self._backoff.failed(now_ns)
            self.say(f"{self.card}: {self.figure} could not be read ({answer.text})")
        else:
            self.closed_by = answer.kind
            self.say(f"{self.card}: no {self.figure} ({answer.text})")
        return None
