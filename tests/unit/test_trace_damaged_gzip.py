"""Compressed traces that are damaged: what stands before the damage is read, and one note says how much that is."""

import gzip
import json
import random
import zlib
from contextlib import suppress
from pathlib import Path

import pytest

from gradscope.errors import GradscopeError
from gradscope.trace.document import uncompressed_bytes
from gradscope.trace.frames import Trace
from gradscope.trace.load import load_trace
from gradscope.trace.source import Source
from gradscope.trace.steps import steps
from tests.trace_builder import chrome_event

REAL = Path(__file__).parent.parent / "cases" / "traces" / "real"
COUNT = 20_000


def _text() -> bytes:
    chance = random.Random(3)
    events = [chrome_event(f"op {chance.random()}", "cpu_op", number, 1) for number in range(COUNT)]
    return json.dumps({"traceEvents": events}).encode()


TEXT = _text()
PACKED = gzip.compress(TEXT)
MIDDLE = len(PACKED) // 2


def loaded(tmp_path: Path, content: bytes) -> tuple[Trace, str]:
    """Return the trace and the one note on its compression."""
    path = tmp_path / "x.json.gz"
    path.write_bytes(content)
    trace = load_trace(path)
    (note,) = (note for note in trace.notes if note.code == "damaged_gzip")
    return trace, note.message


def test_a_damage_in_the_middle_costs_what_follows_it(tmp_path: Path) -> None:
    broken = PACKED[:MIDDLE] + b"\xff" * 64 + PACKED[MIDDLE + 64 :]
    trace, note = loaded(tmp_path, broken)
    assert 0.4 * COUNT < trace.events.height < 0.6 * COUNT
    assert trace.events["ts_ns"].to_list() == [1000 * number for number in range(trace.events.height)]
    assert "damaged at 50" in note
    assert "MiB of text: what follows is lost" in note


@pytest.mark.parametrize(("at", "check"), [(-8, "data"), (-4, "length")])
def test_a_wrong_checksum_costs_nothing(tmp_path: Path, at: int, check: str) -> None:
    broken = bytearray(PACKED)
    broken[at] ^= 1
    trace, note = loaded(tmp_path, bytes(broken))
    assert trace.events.height == COUNT
    assert f"fails its own check (incorrect {check} check)" in note
    assert "lost" not in note


@pytest.mark.parametrize("at", [-8, -4])
def test_a_real_trace_with_a_wrong_checksum_gives_all_it_has(at: int, tmp_path: Path) -> None:
    broken = bytearray((REAL / "rank0_of_many.json.gz").read_bytes())
    broken[at] ^= 1
    trace, note = loaded(tmp_path, bytes(broken))
    assert trace.events.height == 4811
    assert steps(trace).count == 2
    assert "fails its own check" in note
    assert not trace.cut_at


@pytest.mark.parametrize("size", [1000, 1 << 16, 1 << 23])
def test_of_a_damaged_body_all_that_zlib_unpacks_is_kept(size: int, tmp_path: Path) -> None:
    path, chance = tmp_path / "x.json.gz", random.Random(1)
    for _ in range(5):
        broken = bytearray(PACKED)
        broken[chance.randrange(20, len(PACKED) - 8)] ^= 1 << chance.randrange(8)
        path.write_bytes(broken)
        pieces = []
        with Source(path) as source:
            while piece := source.read(size):
                assert len(piece) <= size
                pieces.append(piece)
        assert b"".join(pieces) == _unpacked_byte_by_byte(bytes(broken))
        assert source.damage is not None


def _unpacked_byte_by_byte(packed: bytes) -> bytes:
    inflate, text = zlib.decompressobj(31), bytearray()
    with suppress(zlib.error):
        for at in range(len(packed)):
            text += inflate.decompress(packed[at : at + 1])
    return bytes(text)


def test_a_member_with_a_wrong_checksum_does_not_hide_the_next(tmp_path: Path) -> None:
    cut = TEXT.index(b"}, {", len(TEXT) // 2) + 2
    first = bytearray(gzip.compress(TEXT[:cut]))
    first[-8] ^= 1
    trace, note = loaded(tmp_path, bytes(first) + gzip.compress(TEXT[cut:]))
    assert trace.events.height == COUNT
    assert "fails its own check" in note


def test_a_cut_off_tail_costs_what_it_held(tmp_path: Path) -> None:
    trace, note = loaded(tmp_path, PACKED[: 2 * len(PACKED) // 3])
    assert 0.6 * COUNT < trace.events.height < 0.7 * COUNT
    assert "ends too early, after " in note
    trace, _ = loaded(tmp_path, PACKED[:-1])
    assert trace.events.height == COUNT


def test_what_follows_the_last_member_is_left_out(tmp_path: Path) -> None:
    trace, note = loaded(tmp_path, PACKED + b"garbage!!")
    assert trace.events.height == COUNT
    assert note == "the file is damaged: 9 B that are no gzip follow its compressed data: left out"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (PACKED, len(TEXT)),
        (PACKED + b"\xff\xff\xff\xff", len(TEXT)),
        (PACKED[: len(PACKED) - 1000], len(TEXT)),
        (PACKED[:-4] + b"\0\0\0\0", len(TEXT)),
        (PACKED * 8, 8 * len(TEXT)),
    ],
    ids=["whole", "garbage", "cut", "length", "members"],
)
def test_the_size_of_the_text_is_never_far_off(content: bytes, expected: int, tmp_path: Path) -> None:
    path = tmp_path / "x.json.gz"
    path.write_bytes(content)
    assert uncompressed_bytes(path) == pytest.approx(expected, rel=0.02)


def test_of_a_small_file_the_size_is_exact(tmp_path: Path) -> None:
    path = tmp_path / "x.json.gz"
    path.write_bytes(gzip.compress(b"a" * 1000) + gzip.compress(b"b" * 234) + b"garbage")
    assert uncompressed_bytes(path) == 1234


def test_a_header_that_is_damaged_is_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "x.json.gz"
    path.write_bytes(PACKED[:2] + b"\xff" + PACKED[3:])
    with pytest.raises(GradscopeError, match="damaged at"):
        load_trace(path)
