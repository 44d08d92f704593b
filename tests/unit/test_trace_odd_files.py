"""Traces that are odd as a whole: joined files, steps marked twice, events without a name, ranks that are not all."""

import json
from pathlib import Path

import pytest

from gradscope.trace.answers import Answers
from gradscope.trace.cut import cut_trace
from gradscope.trace.load import load_trace
from gradscope.trace.operators import operators
from gradscope.trace.steps import steps
from gradscope.trace.target import Target, load
from tests.trace_builder import chrome_event, events_frame, listing, op, step, write_chrome, written

CASES = Path(__file__).parents[1] / "cases" / "traces"
EVENT = chrome_event("aten::mm", "cpu_op", 0, 10)


def codes(content: str, folder: Path) -> list[str]:
    trace = load_trace(written(folder, content))
    assert trace.events.height == 1
    return [note.code for note in trace.notes]


def test_a_second_document_is_not_taken_for_an_end_that_is_missing(tmp_path: Path) -> None:
    whole = listing(EVENT)
    assert codes(whole + whole, tmp_path) == ["text_after_end"]
    assert codes(f"{whole}\n{whole}", tmp_path) == ["text_after_end"]
    assert codes(whole + "\n\n", tmp_path) == []
    assert codes(json.dumps([EVENT]) * 2, tmp_path) == ["legacy_format", "text_after_end"]
    assert codes(whole[:-1] + ', "traceName": "x', tmp_path) == ["header_cut"]
    assert codes(whole[:-2], tmp_path) == ["truncated"]


def test_a_step_marked_twice_says_where() -> None:
    def said(tid: str) -> str:
        (note,) = steps(events_frame([step(1, 0, 100), step(1, 10, 50, tid=tid), op("mm", 0, 9)])).notes[:1]
        assert note.code == "repeated_step_mark"
        return note.message

    assert said("100") == (
        "1 step mark(s) repeat a step on the thread that marks it already, at the same time: counted once"
    )
    assert said("200") == "1 step mark(s) repeat a step that is marked on another thread as well: counted once"


def test_events_without_a_name_count_as_those_with_an_empty_one(tmp_path: Path) -> None:
    events = [chrome_event("", "cpu_op", 0, 10), {**chrome_event("", "cpu_op", 20, 30), "name": None}]
    nameless = chrome_event("", "cpu_op", 60, 5)
    del nameless["name"]
    trace = load_trace(write_chrome(tmp_path / "x.json", [*events, nameless]))
    assert operators(trace).select("name", "calls", "self_host_ns").rows() == [("", 3, 45_000)]


def test_a_cut_does_not_forget_that_a_kernel_was_lost(tmp_path: Path) -> None:
    once, twice = tmp_path / "once.json", tmp_path / "twice.json"
    cut_trace(CASES / "p15_lost_kernel.json", once, 0, 0)
    cut_trace(once, twice, 0, 0)
    for path in (once, twice):
        found = steps(load_trace(path))
        assert found.table.select("number", "lost_kernels", "complete").rows() == [(0, 1, False)]
        assert found.mean is None


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        ((None, None), ["a.json says no rank: numbered 0, in order of names",
                        "b.json says no rank: numbered 1, in order of names"]),
        ((3, 3), ["b.json says rank 3, as another file does: numbered 0, in order of names"]),
        ((1, 0), []),
    ],
)  # fmt: skip
def test_every_rank_that_was_given_is_said_whichever_is_shown(
    ranks: tuple[int | None, int | None], said: list[str], tmp_path: Path
) -> None:
    paths = []
    for name, rank in zip("ab", ranks, strict=True):
        header = {} if rank is None else {"distributedInfo": {"rank": rank, "world_size": 8}}
        paths.append(write_chrome(tmp_path / f"{name}.json", [EVENT], **header))
    loaded = load(Target("ranks", paths, folder=tmp_path))
    for shown in (0, 1):
        notes = [note.message for note in Answers(loaded, shown).notes if note.code == "rank_guessed"]
        assert notes == said
    missing = [note.message for note in Answers(loaded, 0).stragglers.notes if note.code == "ranks_missing"]
    assert missing == ([] if ranks == (None, None) else ["2 of 8 ranks are here: who came last is said among these"])
