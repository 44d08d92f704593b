"""A folder of traces: ranks as the files say, numbers where they do not, windows of one worker joined."""

from pathlib import Path

import pytest

from gradscope.errors import GradscopeError
from gradscope.trace.load import load_trace
from gradscope.trace.ranks import load_traces
from tests.trace_builder import chrome_event, write_chrome


def trace(
    folder: Path, name: str, rank: int | None, *, ts: float = 0, operator: str = "aten::mm", **header: object
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    events = [
        chrome_event(operator, "cpu_op", ts, 5, args={"External id": 1}),
        chrome_event("s", "ac2g", ts, ph="s", id=4),
    ]
    distributed = None if rank is None else {"rank": rank, "world_size": 2}
    write_chrome(folder / name, events, distributedInfo=distributed, **header)


def test_ranks_are_what_the_files_say_not_their_order(tmp_path: Path) -> None:
    trace(tmp_path, "a_1.100.pt.trace.json", 1)
    trace(tmp_path / "deep", "b_2.100.pt.trace.json.gz", 0)
    trace(tmp_path, "notes.json", 7)
    found = load_traces(tmp_path)
    assert list(found) == [0, 1]
    assert [each.metadata.rank for each in found.values()] == [0, 1]
    assert [each.notes for each in found.values()] == [[], []]


def test_one_file_without_a_rank_is_rank_0_without_a_note(tmp_path: Path) -> None:
    trace(tmp_path, "any.json", None)
    found = load_traces(tmp_path)
    assert list(found) == [0]
    assert found[0].notes == []


def test_several_workers_without_ranks_are_numbered_and_never_merged(tmp_path: Path) -> None:
    trace(tmp_path, "b_1.pt.trace.json", None, operator="b")
    trace(tmp_path, "a_1.pt.trace.json", None, operator="a")
    found = load_traces(tmp_path)
    assert [each.events["name"][0] for each in found.values()] == ["a", "b"]
    assert [note.message for each in found.values() for note in each.notes] == [
        "a_1.pt.trace.json says no rank: numbered 0, in order of names",
        "b_1.pt.trace.json says no rank: numbered 1, in order of names",
    ]


def test_two_workers_that_claim_one_rank_stay_two(tmp_path: Path) -> None:
    trace(tmp_path, "a_1.pt.trace.json", 0)
    trace(tmp_path, "b_1.pt.trace.json", 0)
    found = load_traces(tmp_path)
    assert list(found) == [0, 1]
    assert [note.code for note in found[1].notes] == ["rank_guessed"]


def test_windows_of_one_worker_are_joined_on_the_wall_clock(tmp_path: Path) -> None:
    trace(tmp_path, "a_1.200.pt.trace.json", 0, ts=50, operator="late", baseTimeNanoseconds=1_000_000)
    trace(tmp_path, "a_1.100.pt.trace.json", 0, ts=20, operator="early", baseTimeNanoseconds=900_000)
    joined = load_traces(tmp_path)[0]
    rows = joined.events.filter(joined.events["ph"] == "X").select("name", "index", "ts_ns", "external_id", "flow_id")
    assert rows.rows() == [("early", 0, 0, 1, None), ("late", 2, 130_000, 3, None)]
    assert joined.events["flow_id"].drop_nulls().to_list() == ["4", "window 2: 4"]
    assert joined.wall_ns(0) == 920_000
    assert {note.code: note.count for note in joined.notes} == {"windows_joined": 2}


def test_a_folder_without_traces_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GradscopeError, match="no trace lies in"):
        load_traces(tmp_path)


def test_a_file_that_cannot_be_loaded_is_left_out_and_named(tmp_path: Path) -> None:
    trace(tmp_path, "a_1.pt.trace.json", 0)
    (tmp_path / "b_1.pt.trace.json").write_text("")
    trace(tmp_path, "c_1.pt.trace.json", 2)
    found = load_traces(tmp_path)
    assert list(found) == [0, 2]
    said = "not loaded: b_1.pt.trace.json (b_1.pt.trace.json is no trace: it is empty)"
    assert [[note.message for note in each.notes] for each in found.values()] == [[said], [said]]


def test_only_where_no_file_can_be_loaded_the_folder_is_refused(tmp_path: Path) -> None:
    for name in ("a_1.pt.trace.json", "b_1.pt.trace.json"):
        (tmp_path / name).write_text("")
    with pytest.raises(GradscopeError, match="it is empty"):
        load_traces(tmp_path)


def test_windows_that_are_joined_keep_where_one_of_them_broke_off(tmp_path: Path) -> None:
    trace(tmp_path, "a_1.100.pt.trace.json", 0, baseTimeNanoseconds=900_000)
    trace(tmp_path, "a_1.200.pt.trace.json", 0, baseTimeNanoseconds=1_000_000)
    torn = tmp_path / "a_1.200.pt.trace.json"
    torn.write_text(torn.read_text()[:-30])
    assert load_trace(torn).cut_at == (1,)
    assert load_traces(tmp_path)[0].cut_at == (3,)


def test_ids_of_windows_stay_apart_and_grow_no_faster_than_the_windows(tmp_path: Path) -> None:
    for number, largest in enumerate([7, 2**63 - 1, 7]):
        events = [chrome_event("a", "cpu_op", 0, 5, args={"External id": one}) for one in (0, 1, largest)]
        write_chrome(tmp_path / f"a_1.{number}.pt.trace.json", events, baseTimeNanoseconds=number)
    (joined,) = load_traces(tmp_path).values()
    assert joined.events["external_id"].to_list() == [0, 1, 7, 8, 9, 2**63 - 1, 10, 11, 17]
