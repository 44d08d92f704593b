"""Following a feed from a screen: what is new arrives once, in order, and nothing is left when the screen is gone."""

import threading
from collections.abc import Callable
from dataclasses import replace

from textual.app import App
from textual.pilot import Pilot
from textual.screen import Screen

from gradscope.tui.feed import Feed, never
from gradscope.tui.follower import FeedUpdated, follow
from gradscope.tui.view import RunView
from tests.tui.views import ListFeed, view


class Follower(Screen[None]):
    """Writes down the views it is told of."""

    def __init__(self, *feeds: Feed, refresh_seconds: float = 0.001) -> None:
        super().__init__()
        self.feeds = feeds
        self.refresh_seconds = refresh_seconds
        self.views: list[RunView] = []

    def on_mount(self) -> None:
        for feed in self.feeds:
            follow(self, feed, self.refresh_seconds)

    def on_feed_updated(self, message: FeedUpdated) -> None:
        self.views.append(message.view)


class SteppedFeed:
    """Hands out its views one by one, whenever it is let."""

    def __init__(self, views: list[RunView]) -> None:
        self.views = views
        self.threads: set[int] = set()
        self.next = threading.Semaphore(0)
        self.ended = threading.Event()

    def read(self, enough: Callable[[], bool] = never) -> RunView:
        self.threads.add(threading.get_ident())
        while not self.next.acquire(timeout=0.005):
            if enough():
                self.ended.set()
                break
        return self.views.pop(0) if len(self.views) > 1 else self.views[0]


class Shell(App[None]):
    def __init__(self, screen: Follower) -> None:
        super().__init__()
        self.follower = screen

    def on_mount(self) -> None:
        self.push_screen(self.follower)


async def until(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    while not condition():
        await pilot.pause()


async def test_each_new_view_arrives_once_and_in_order() -> None:
    views = [view(), view(), view()]
    feed = SteppedFeed(list(views))
    screen = Follower(feed)
    async with Shell(screen).run_test() as pilot:
        for told in range(1, 4):
            feed.next.release()
            await until(pilot, lambda told=told: len(screen.views) == told)
        feed.next.release()
        feed.next.release()
        await pilot.pause()
    assert screen.views == views
    assert threading.get_ident() not in feed.threads


async def test_a_view_that_was_told_already_is_not_told_again() -> None:
    feed = ListFeed([view()])
    screen = Follower(feed)
    async with Shell(screen).run_test() as pilot:
        await until(pilot, lambda: feed.reads > 5)
    assert len(screen.views) == 1


async def test_a_partial_view_is_followed_by_the_rest_without_waiting() -> None:
    whole = view()
    screen = Follower(ListFeed([replace(whole, revision=0, partial=True), whole]), refresh_seconds=1000)
    async with Shell(screen).run_test() as pilot:
        await until(pilot, lambda: bool(screen.views) and screen.views[-1] is whole)


async def test_the_thread_ends_with_the_screen() -> None:
    feed = SteppedFeed([view()])
    screen = Follower(feed)
    async with Shell(screen).run_test() as pilot:
        feed.next.release()
        await until(pilot, lambda: len(screen.views) == 1)
        pilot.app.pop_screen()
        await until(pilot, feed.ended.is_set)


async def test_a_long_wait_between_looks_does_not_hold_up_the_end() -> None:
    screen = Follower(ListFeed([view()]), refresh_seconds=1000)
    async with Shell(screen).run_test() as pilot:
        await until(pilot, lambda: len(screen.views) == 1)
    # leaving waits for the thread: the test would time out


async def test_another_feed_takes_the_place_of_the_first() -> None:
    first, second = SteppedFeed([view()]), ListFeed([view()])
    screen = Follower(first, second)
    async with Shell(screen).run_test() as pilot:
        await until(pilot, lambda: first.ended.is_set() or not first.threads)
        await until(pilot, lambda: bool(screen.views))
    assert screen.views == [second.read()]


def test_of_several_updates_that_wait_the_last_one_counts() -> None:
    feed, other = ListFeed([view()]), ListFeed([view()])
    update = FeedUpdated(feed, view())
    assert update.can_replace(FeedUpdated(feed, view()))
    assert not update.can_replace(FeedUpdated(other, view()))
