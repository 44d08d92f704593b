"""Damaged traces out of the fixtures: bytes cut, flipped, put in and doubled, values replaced, any JSON as events.

`mutation(seed, number)` is the same bytes wherever it is called, so a failure is told by two numbers.
"""

import gzip
import json
import random
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

CASES = Path(__file__).parent / "cases" / "traces"
THIN_BYTES = 100_000
"""Fixtures with more text are thinned out: mutations are of small traces."""
THIN_EVENTS = 40
"""Of each category of a thinned fixture."""
BATCH = 50
"""Documents that hypothesis makes at a time."""

WORDS = [
    *(b"\x00", b"\x01", b"\x1b[2J", b"\xff", b"\xf0\x28\x8c", b"\xef\xbb\xbf", b"\\ud800", b"\\", b"\n"),
    *(b'"', b"{", b"}", b"[", b"]", b",", b":", b"},{", b'},\n{"ph": "X"', b"]}"),
    *(b"null", b"NaN", b"-inf", b"N/A", b"1e999", b"-1", b"1e-400", b"true", b"{}", b"[]", b'"7"'),
    *(b"9" * 30, b"9" * 5000, b'"ts":', b'"dur": -5,', b'"ph": "B",', b'"ph": "E",'),
]
ODD = [
    *(b"null", b"-1", b"0", b"1e400", b'""', b'"x"', b"[]", b"{}", b"99999999999999999999", b"NaN", b"true", b"0.5"),
    *(b"9e18", b"9223372036854775807", b'"\x1b[2J"', b'"[memory]"', b'"kernel"', b'"cpu_op"', b'"ProfilerStep#1"'),
    *(b'"nccl:all_reduce"', b'"nn.Module: X_0"', b'"python_function"', b'"cuda_runtime"', b'"B"', b'"i"', b'"f"'),
]
"""What may stand where another value should."""
VALUE = re.compile(rb'(?<=": )(?:-?[0-9.]+|"[^"]*")')


def mutated(content: bytes, random_: random.Random) -> bytes:
    """Return `content` with one to four damages."""
    for _ in range(random_.choice((1, 1, 1, 2, 4))):
        at = random_.randrange(len(content) + 1)
        length = random_.choice((1, 1, 2, 7, 60, 400))
        content = random_.choice((_cut, _flip, _insert, _delete, _double, _replace))(content, at, length, random_)
    return content


def _cut(content: bytes, at: int, _length: int, _random: random.Random) -> bytes:
    return content[:at]


def _flip(content: bytes, at: int, _length: int, random_: random.Random) -> bytes:
    return content[:at] + bytes([random_.randrange(256)]) + content[at + 1 :]


def _insert(content: bytes, at: int, _length: int, random_: random.Random) -> bytes:
    return content[:at] + random_.choice(WORDS) + content[at:]


def _delete(content: bytes, at: int, length: int, _random: random.Random) -> bytes:
    return content[:at] + content[at + length :]


def _double(content: bytes, at: int, length: int, random_: random.Random) -> bytes:
    start = random_.randrange(len(content) + 1)
    return content[:at] + content[start : start + length] + content[at:]


def _replace(content: bytes, at: int, length: int, random_: random.Random) -> bytes:
    return content[:at] + random_.choice(WORDS) + content[at + length :]


def packed(content: bytes, random_: random.Random) -> bytes:
    """Return `content` compressed, sometimes with the compressed bytes damaged."""
    packed_ = gzip.compress(content, 1)
    return mutated(packed_, random_) if random_.random() < 0.5 else packed_


def with_odd_values(content: bytes, random_: random.Random) -> bytes:
    """Return `content`, JSON as it was, with one to eight values replaced."""
    for _ in range(random_.randint(1, 8)):
        if places := list(VALUE.finditer(content)):
            place = random_.choice(places)
            content = content[: place.start()] + random_.choice(ODD) + content[place.end() :]
    return content


@lru_cache(maxsize=1)
def seeds() -> list[bytes]:
    """Return the text of every fixture, the large ones thinned out."""
    found = []
    for path in sorted(CASES.glob("**/*.json*")):
        content = path.read_bytes()
        text = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
        if path.name != "expected.json" and text:
            found.append(text if len(text) < THIN_BYTES else thinned(text))
    return found


def thinned(text: bytes) -> bytes:
    """Return a trace with its first events of each category, and what belongs to them by their correlation."""
    document = json.loads(text)
    counts: dict[Any, int] = {}
    kept, launched = set(), set()
    for event in document["traceEvents"]:
        category = event.get("cat")
        counts[category] = counts.get(category, 0) + 1
        if counts[category] <= THIN_EVENTS or str(event.get("name")).startswith("ProfilerStep"):
            kept.add(id(event))
            launched.add(event.get("args", {}).get("correlation"))
    launched.discard(None)
    document["traceEvents"] = [
        event
        for event in document["traceEvents"]
        if id(event) in kept or event.get("args", {}).get("correlation") in launched
    ]
    return json.dumps(document).encode()


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
NAMES = st.sampled_from(["ProfilerStep#0", "ProfilerStep#1", "aten::mm", "[memory]", "cudaLaunchKernel", "ncclKernel"])
CATEGORIES = st.sampled_from(["cpu_op", "user_annotation", "kernel", "cuda_runtime", "cpu_instant_event", "ac2g"])
ARGUMENTS = st.dictionaries(
    st.sampled_from(
        [
            *("External id", "Input Dims", "Call stack", "Bytes", "Total Allocated", "Device Type", "device", "stream"),
            *("correlation", "Addr", "name", "dtype", "Python id", "Python parent id", "Sequence number"),
        ]
    ),
    VALUES | st.integers(0, 3),
)
TIMES = {"ts": st.integers(0, 99) | st.floats(0, 1e7), "dur": st.integers(0, 99) | st.floats(0, 1e5)}
EVENTS = st.lists(
    st.fixed_dictionaries(
        {"ph": st.sampled_from("XXXBEiCsfM")}, optional={**TIMES, "name": NAMES, "cat": CATEGORIES, "id": VALUES}
    )
    | st.dictionaries(KEYS, VALUES, max_size=9)
    | st.fixed_dictionaries({"ph": st.just("X"), "args": ARGUMENTS, "name": NAMES, "cat": CATEGORIES, **TIMES})
    | VALUES,
    max_size=12,
)
DOCUMENTS = st.builds(
    lambda events, indent, bare: json.dumps(events if bare else {"traceEvents": events}, indent=indent).encode(),
    EVENTS,
    st.sampled_from([None, 1]),
    st.booleans(),
)
"""Traces whose events are any JSON at all, most of them near to what torch writes."""


@lru_cache(maxsize=4)
def _documents(seed_: int, batch: int) -> list[bytes]:
    found: list[bytes] = []

    @seed(seed_ * 1_000_003 + batch)
    @settings(
        max_examples=BATCH,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(DOCUMENTS)
    def keep(content: bytes) -> None:
        found.append(content)

    keep()
    return found


def mutation(seed_: int, number: int) -> tuple[str, bytes]:
    """Return a damaged trace and what was done to it; the fixtures take turns."""
    random_ = random.Random(f"{seed_}/{number}")
    fixtures = seeds()
    fixture = fixtures[number // 4 % len(fixtures)]
    kind = ("bytes", "bytes", "values", "events")[number % 4]
    if kind == "bytes":
        content = mutated(fixture, random_)
    elif kind == "values":
        content = with_odd_values(fixture, random_)
    else:
        batch, place = divmod(number // 4, BATCH)
        documents = _documents(seed_, batch)
        content = documents[place % len(documents)]
    if random_.random() < 0.25:
        return f"{kind}, gzip", packed(content, random_)
    return kind, content
