"""Phases are what lies between stamps, and add up to the step."""

import pytest
import torch

from gradscope.worker.phases import KEPT_MICRO_STEPS, PhaseClock


class Ticks:
    """Stamps at given milliseconds; `read_up_to` says how far the device has got."""

    def __init__(self, *milliseconds):
        self.left = list(milliseconds)
        self.read_up_to = float("inf")

    def take(self):
        return self.left.pop(0)

    def is_read(self, stamp):
        return stamp <= self.read_up_to

    def elapsed_ms(self, start, end):
        return end - start


def test_phases_add_up_to_the_step_and_micro_steps_are_timed():
    clock = PhaseClock(Ticks(0, 1, 3, 4, 10, 30, 31, 35, 55, 60, 62))
    clock.begin()
    for phase in ("data", "h2d", "forward", "backward", "h2d", "forward", "backward", "optimizer", "other"):
        clock.enter(phase)
    clock.end()
    (timing,) = clock.finished()
    phases = timing.phases
    assert (phases.data, phases.h2d, phases.forward, phases.backward) == (2, 2, 10, 40)
    assert (phases.optimizer, phases.other, phases.recompute) == (5, 3, None)
    assert timing.wall_ms == 62
    total = phases.data + phases.h2d + phases.forward + phases.backward + phases.optimizer + phases.other
    assert total == timing.wall_ms
    assert timing.micro_ms == [27, 25]


def test_a_step_ends_where_the_next_begins():
    clock = PhaseClock(Ticks(0, 5, 12, 15, 20))
    clock.begin()
    clock.enter("data")
    clock.begin()
    clock.enter("data")
    clock.end()
    assert [timing.wall_ms for timing in clock.finished()] == [12, 8]


def test_a_step_is_given_out_only_once_the_device_has_passed_its_end():
    ticks = Ticks(0, 10, 20, 30)
    clock = PhaseClock(ticks)
    clock.begin()
    clock.begin()
    ticks.read_up_to = 5
    assert clock.finished() == []
    ticks.read_up_to = 10
    assert len(clock.finished()) == 1
    clock.end()
    assert len(clock.finished(wait=True)) == 1


def test_recomputation_is_a_part_of_backward():
    clock = PhaseClock(Ticks(0, 1, 2, 10, 12, 20, 25, 40), recomputes=True)
    clock.begin()
    clock.enter("h2d")
    clock.enter("forward")
    clock.enter("backward")
    for entering in (True, False):
        clock.on_recomputation(entering)
    clock.enter("optimizer")
    clock.end()
    (timing,) = clock.finished()
    assert timing.phases.backward == 15
    assert timing.phases.recompute == 8


def test_a_checkpointing_strategy_that_never_recomputes_shows_zero_and_not_none():
    clock = PhaseClock(Ticks(0, 4), recomputes=True)
    clock.begin()
    clock.end()
    assert clock.finished()[0].phases.recompute == 0


def test_an_abandoned_step_leaves_no_record():
    clock = PhaseClock(Ticks(0, 4, 8))
    clock.begin()
    clock.enter("data")
    clock.abandon()
    assert clock.finished(wait=True) == []


def test_only_the_first_micro_steps_are_kept():
    count = KEPT_MICRO_STEPS + 4
    clock = PhaseClock(Ticks(*range(3 + 3 * count)))
    clock.begin()
    for _ in range(count):
        for phase in ("h2d", "forward", "backward"):
            clock.enter(phase)
    clock.end()
    assert len(clock.finished()[0].micro_ms) == KEPT_MICRO_STEPS


def test_ranges_close_in_order_so_that_a_trace_nests():
    clock = PhaseClock(Ticks(*range(10)))
    clock.annotate = True
    with torch.profiler.profile() as profiler:
        clock.begin()
        for phase in ("data", "forward", "backward"):
            clock.enter(phase)
        clock.leave_range()
    names = [event.name for event in profiler.events() if event.name.startswith("gradscope")]
    assert names == ["gradscope: data", "gradscope: forward", "gradscope: backward"]


def test_entering_a_phase_outside_a_step_is_a_programming_error():
    with pytest.raises(AssertionError):
        PhaseClock(Ticks(0)).enter("data")
