"""Following a feed: one thread reads it and posts what is new; it never touches a widget."""

import time
from functools import partial

from textual.dom import DOMNode
from textual.message import Message
from textual.worker import Worker, get_current_worker

from gradscope.tui.feed import Feed
from gradscope.tui.view import RunView

SHOW_AFTER_SECONDS = 1.0
"""A run that takes longer to read is shown in parts as it is read."""


class FeedUpdated(Message):
    """A feed has something new. Of several that wait to be handled, only the last one is."""

    bubble = False

    def __init__(self, feed: Feed, view: RunView) -> None:
        super().__init__()
        self.feed = feed
        self.view = view

    def can_replace(self, message: Message) -> bool:
        """Whether this one is out of date once `message` is there."""
        return isinstance(message, FeedUpdated) and message.feed is self.feed


def follow(node: DOMNode, feed: Feed, refresh_seconds: float) -> Worker[None]:
    """Read `feed` again and again, and post `FeedUpdated` to `node` whenever it has something new.

    A node follows one feed: another call ends what an earlier one began. So does the end of the node.

    Args:
        node: Who is told, and who owns the thread.
        feed: What is read; at once, then every `refresh_seconds`.
        refresh_seconds: Time between two looks.
    """
    work = partial(_follow, node, feed, refresh_seconds)
    return node.run_worker(work, name="feed", group="feed", exclusive=True, thread=True)


def _follow(node: DOMNode, feed: Feed, refresh_seconds: float) -> None:
    worker = get_current_worker()
    revision = None
    while not worker.is_cancelled:
        until = time.monotonic() + SHOW_AFTER_SECONDS
        view = feed.read(partial(_enough, worker, until))
        if view.revision != revision and not worker.is_cancelled:
            revision = view.revision
            node.post_message(FeedUpdated(feed, view))
        if not view.partial:
            worker.cancelled_event.wait(refresh_seconds)


def _enough(worker: Worker[None], until: float) -> bool:
    return worker.is_cancelled or time.monotonic() > until
