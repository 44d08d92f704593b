"""Traces that are not strict JSON become it; what is strict already is left as it is."""

import gzip
import json
from pathlib import Path

import pytest

from gradscope.errors import GradscopeError
from gradscope.trace.document import find_traces, read_document, uncompressed_bytes, write_document
from gradscope.trace.repair import strict_json

EVENT = b'{"ph":"X","name":"%s","pid":1,"tid":1,"ts":1.5,"dur":2}'


def refuse(constant: str) -> None:
    raise AssertionError(f"not strict: {constant}")


def document(*names: bytes) -> bytes:
    return b'{"traceEvents":[' + b",".join(EVENT % name for name in names) + b"]}"


@pytest.mark.parametrize(
    ("name", "kind", "mended"),
    [
        (b"aten::\x01mm", "control character", "aten::\x01mm"),
        (b"a\nb", "control character", "a\nb"),
        (b"aten::\xf0\x28\x8crelu", "invalid UTF-8", "aten::\ufffd(\ufffdrelu"),
        (rb"C:\Users\me\new\train.py(3): step", "backslash", "C:\\Users\\me\\new\\train.py(3): step"),
        (rb"\u12", "backslash", "\\u12"),
        (rb"a \ud800 b", "surrogate", "a \ufffd b"),
    ],
)
def test_a_broken_name_is_mended_and_the_rest_kept(name: bytes, kind: str, mended: str) -> None:
    content, repairs = strict_json(document(b"before", name, b"after"))
    names = [event["name"] for event in json.loads(content, parse_constant=refuse)["traceEvents"]]
    assert names == ["before", mended, "after"]
    assert set(repairs) == {kind}


@pytest.mark.parametrize("word", ["NaN", "nan", "inf", "-inf", "Infinity", "-Infinity", "N/A"])
def test_a_bare_word_becomes_null(word: str) -> None:
    text = f'{{"traceEvents":[{{"args":{{"bandwidth (GB/s)": {word}, "note": "N/A and NaN, inf"}}}}]}}'
    content, repairs = strict_json(text.encode())
    args = json.loads(content, parse_constant=refuse)["traceEvents"][0]["args"]
    assert args == {"bandwidth (GB/s)": None, "note": "N/A and NaN, inf"}
    assert repairs == {"bare word": 1}


def test_a_strict_document_is_given_back_as_the_same_object() -> None:
    content = document("Grüße ☃".encode(), rb"C:\\Users\\new \u00e9 \n")
    again, repairs = strict_json(content)
    assert again is content
    assert not repairs


@pytest.mark.parametrize("content", [b"", b"{", b'{"a": }', b"[[[[" * 50_000, b"hello", document(b"a")[:-10]])
def test_what_is_no_json_is_one_clear_error(content: bytes) -> None:
    with pytest.raises(GradscopeError, match="not a trace"):
        strict_json(content)


@pytest.mark.parametrize("content", [b"[]", b"{}", b'{"traceEvents": 3}', b"null"])
def test_json_without_events_is_no_trace(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.pt.trace.json"
    path.write_bytes(content)
    with pytest.raises(GradscopeError, match="is no trace"):
        read_document(path)


def test_compression_is_told_by_content_not_by_name(tmp_path: Path) -> None:
    plain, packed, members = (tmp_path / f"{name}.json.gz" for name in ("plain", "packed", "members"))
    content = document(b"a", b"b")
    plain.write_bytes(content)
    packed.write_bytes(gzip.compress(content))
    members.write_bytes(gzip.compress(content[:30]) + gzip.compress(content[30:]))
    assert [len(read_document(path).events) for path in (plain, packed, members)] == [2, 2, 2]


def test_a_cut_gzip_file_is_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "x.pt.trace.json.gz"
    path.write_bytes(gzip.compress(document(b"a"))[:-12])
    with pytest.raises(GradscopeError, match="cannot read the trace"):
        read_document(path)


@pytest.mark.parametrize("count", [0, 1, 4095, 4096, 4097, 9000])
def test_any_number_of_events_is_written_as_it_was_read(tmp_path: Path, count: int) -> None:
    path = tmp_path / "x.pt.trace.json.gz"
    events = [EVENT % b"%d" % number for number in range(count)]
    write_document(path, {"schemaVersion": 1}, events)
    back = read_document(path)
    assert [bytes(event) for event in back.events] == events
    assert list(back.header) == ["schemaVersion"]
    assert list(tmp_path.iterdir()) == [path]


def test_ids_beyond_64_bits_keep_their_digits(tmp_path: Path) -> None:
    path = tmp_path / "x.pt.trace.json"
    path.write_bytes(b'{"traceEvents":[{"ph":"s","id":184467440737095516151,"args":{"x":1.50}}]}')
    document_ = read_document(path)
    write_document(path, document_.header, document_.events)
    assert b'"id":184467440737095516151,"args":{"x":1.50}' in path.read_bytes()


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "x.pt.trace.json"
    path.write_bytes(b"old")

    def failing() -> object:
        yield b"{}"
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        write_document(path, {}, failing())  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_sizes_are_known_without_reading_the_file(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    plain, packed = tmp_path / "a.pt.trace.json", tmp_path / "run" / "b.pt.trace.json.gz"
    plain.write_bytes(b"x" * 1000)
    packed.write_bytes(gzip.compress(b"x" * 123_456))
    (tmp_path / "other.json").write_bytes(b"{}")
    assert find_traces(tmp_path) == [plain, packed]
    assert [uncompressed_bytes(path) for path in (plain, packed)] == [1000, 123_456]
