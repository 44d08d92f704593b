"""Whatever bytes a trace holds: a trace with notes, or one clear error; never a traceback, never a wrong frame."""

import gzip
import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradscope.trace.header import read_opening
from gradscope.trace.load import load_trace
from gradscope.trace.pieces import EventReader
from gradscope.trace.scan import scan_chunk
from gradscope.trace.source import Source
from tests.trace_mutations import check_load, mutated, packed

CASES = Path(__file__).parent.parent / "cases" / "traces"
SEEDS = [
    *(path.read_bytes() for path in sorted(CASES.glob("*.json")) if path.stat().st_size > 50),
    *(gzip.decompress((CASES / "real" / f"{name}.json.gz").read_bytes()) for name in ("triton_kernels", "rocm_mi250")),
]
SHORT = 400
LONG = 10_000


def fuzz(seeds: range, folder: Path) -> None:
    path = folder / "x.json"
    for seed in seeds:
        random_ = random.Random(seed)
        content = mutated(random_.choice(SEEDS), random_)
        path.write_bytes(packed(content, random_) if random_.random() < 0.2 else content)
        try:
            check_load(path)
        except Exception as error:
            raise AssertionError(f"mutation {seed}") from error


def test_mutated_traces_load_or_are_refused(tmp_path: Path) -> None:
    fuzz(range(SHORT), tmp_path)


@pytest.mark.soak
def test_ten_thousand_mutated_traces_load_or_are_refused(tmp_path: Path) -> None:
    fuzz(range(LONG), tmp_path)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_trace_cut_anywhere_keeps_every_event_before_the_cut(tmp_path: Path, compressed: bool) -> None:
    content = (CASES / "base_gpu.json").read_bytes()
    ends = [content.index(text) + len(text) for text in _event_texts(content)]
    path = tmp_path / "cut.json"
    for cut in range(0, len(content), 13):
        whole = gzip.compress(content[:cut])
        path.write_bytes(whole[:-8] if compressed else content[:cut])  # without its checksum and size
        trace = check_load(path)
        complete = sum(end <= cut for end in ends)
        assert (trace.events.height if trace else 0) == complete
        if trace:
            assert {note.code for note in trace.notes} & {"truncated", "damaged_gzip"}


def _event_texts(content: bytes) -> list[bytes]:
    return [json.dumps(event).encode() for event in json.loads(content)["traceEvents"]]


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["X", "B", "E", "M"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(["ph", "name", "cat", "pid", "tid", "ts", "dur", "id", "args"])
ARGUMENTS = st.dictionaries(
    st.sampled_from(["External id", "Input Dims", "Call stack", "Bytes", "device", "stream", "Addr", "name", "dtype"]),
    VALUES,
)
EVENTS = st.lists(
    st.fixed_dictionaries(
        {"ph": st.sampled_from("XXXBEiCsfM")}, optional={"ts": st.floats(0, 1e7), "dur": st.floats(0, 1e5)}
    )
    | st.dictionaries(KEYS, VALUES, max_size=9)
    | st.fixed_dictionaries(
        {"ph": st.just("X"), "args": ARGUMENTS, "ts": st.integers(0, 99), "dur": st.integers(0, 99)}
    )
    | VALUES,
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(EVENTS, st.sampled_from([None, 1]), st.booleans())
def test_any_json_in_the_list_of_events_loads_or_is_refused(
    tmp_path_factory: pytest.TempPathFactory, events: list[object], indent: int | None, bare: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_text(json.dumps(events if bare else {"traceEvents": events}, indent=indent))
    check_load(path)


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("piece_bytes", [20_000, 70_000, 100_000])
def test_where_pieces_are_cut_changes_nothing(tmp_path: Path, indent: int | None, piece_bytes: int) -> None:
    nested = {"list": [{"name": "},\n{", "ph": 1}, {"name": 'a "quoted" },{ "ph": "X"', "x": [{"ts": 1}, {"ts": 2}]}]}
    events = [
        {"ph": "X", "name": f'op "{number}" }},{{', "ts": number, "dur": 1, "pid": 1, "tid": 1, "args": nested}
        for number in range(900)
    ]
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"traceEvents": events, "other": [{"ph": 1}, {"ph": 2}]}, indent=indent))
    whole = load_trace(path)
    assert whole.events.height == len(events)
    with Source(path) as source:
        reader = EventReader(source, read_opening(source), piece_bytes)
        pieces = [scan_chunk(piece.text) for piece in reader.pieces()]
        rest = [scan for _, scan in reader.scans()]
    assert pieces
    assert all(scan.whole for scan in pieces)
    names = [event.name for scan in (*pieces, *rest) for event in scan.events]
    assert names == whole.events.get_column("name").to_list()
    assert reader.closed
    assert b"other" in reader.rest
