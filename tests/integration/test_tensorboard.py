"""A real TensorBoard on 127.0.0.1, started by `gradscope tensorboard`, asked over HTTP for what a run folder holds."""

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest

from gradscope.analysis.summary import summarise_run
from gradscope.core.events import ProfileEnded, ProfileStarted
from gradscope.export.chrome import enrich_run
from gradscope.export.tensorboard import write_run
from gradscope.rundir.layout import trace_name
from gradscope.trace.document import GZIP_MAGIC, read_bytes
from tests.builders import RUN_ID, finished_events, preset_dict, run_directory, sample

MAIN = "from gradscope.cli.app import main; main()"

TRAINING = Path(__file__).parents[1] / "training_trace.py"

NAMES = ["llama3.1", "two words", "[brackets] v2.0"]
"""Preset names: the first run below has a trace, the others scalars only."""


@dataclass
class Profiled:
    """A run folder with a real trace, and what is known of it."""

    out: Path
    run_dir: Path
    trace: Path
    before: bytes
    first_step_wall_s: float
    last_step_wall_s: float


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Profiled:
    out = tmp_path_factory.mktemp("runs") / "traces"
    raw = out.parent / "raw.pt.trace.json.gz"
    done = subprocess.run([sys.executable, TRAINING, raw], capture_output=True, check=True, text=True)
    first, last = (float(word) for word in done.stdout.split())
    name = trace_name(RUN_ID, 1, round(first * 1e9))
    events = [_in_window(event, first, last) for event in finished_events(trace=name)]
    samples = [sample(2600, host={"tree_cpu_pct": 120.0}), sample(2601, host={"tree_cpu_pct": 150.0})]
    run_dir = run_directory(out, events=events, samples=samples, preset=preset_dict(name=NAMES[0]))
    raw.rename(run_dir / name)
    before = read_bytes(run_dir / name)
    for number, other in enumerate(NAMES[1:]):
        summarise_run(bare := run_directory(out, preset=preset_dict(name=other), run_id=f"{RUN_ID[:-1]}{number}"))
        write_run(bare)
    summarise_run(run_dir)
    write_run(run_dir)
    assert enrich_run(run_dir) == []
    return Profiled(out, run_dir, run_dir / name, before, first, last)


def _in_window(event: Any, first_s: float, last_s: float) -> Any:
    """Let the made-up window have happened when the real one did."""
    if isinstance(event, ProfileStarted):
        return msgspec.structs.replace(event, wall_ns=round(first_s * 1e9))
    if isinstance(event, ProfileEnded):
        return msgspec.structs.replace(event, wall_ns=round(last_s * 1e9))
    return event


class Server:
    """`gradscope tensorboard` as a user starts it."""

    def __init__(self, logdir: Path, *arguments: str, **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", MAIN, "tensorboard", str(logdir), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | environment,
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()

    def get(self, path: str, body: Any = None, **query: str) -> Any:
        address = f"{self.url}data/plugin/{path}" + (f"?{urlencode(query)}" if query else "")
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(address, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            content = answer.read()
        return json.loads(gzip.decompress(content) if content.startswith(GZIP_MAGIC) else content)

    def wait_for(self, path: str, ready: Any, **query: str) -> Any:
        """Ask until the answer is what it should be; the test's time limit ends a wait in vain."""
        while True:
            found = self.get(path, **query)
            if ready(found):
                return found
            time.sleep(0.1)

    def end(self, signum: int = signal.SIGINT) -> tuple[int, str]:
        self.process.send_signal(signum)
        _, said = self.process.communicate(timeout=20)
        return self.process.returncode, said


@pytest.fixture(scope="module")
def server(profiled: Profiled) -> Iterator[Server]:
    running = Server(profiled.out, SSH_CONNECTION="192.0.2.9 50000 192.0.2.1 2222")
    yield running
    code, said = running.end()
    port = running.url.rsplit(":", 1)[1].rstrip("/")
    assert code == 0
    forward, end = said.splitlines()  # nothing else: TensorBoard's log has no warning and no error
    assert re.search(rf"ssh -N -L {port}:127\.0\.0\.1:{port} -p 2222 \S+@192\.0\.2\.1$", forward)
    assert end == "Ctrl-C ends it"


@pytest.fixture(scope="module")
def run(server: Server, profiled: Profiled) -> str:
    name = str(profiled.run_dir.relative_to(profiled.out))
    server.wait_for("pytorch_profiler/runs", lambda found: found == {"runs": [name], "loading": False})
    return name


def test_it_answers_on_this_machine_only(server: Server) -> None:
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", server.url)


def test_every_view_of_the_profiler_answers(server: Server, run: str, profiled: Profiled) -> None:
    assert server.get("pytorch_profiler/views", run=run) == ["Overview", "Operator", "Trace", "Memory", "Module"]
    worker = profiled.trace.name.split(".")[0]
    assert server.get("pytorch_profiler/workers", run=run, view="Overview") == [worker]
    spans = server.get("pytorch_profiler/spans", run=run, worker=worker)
    where = {"run": run, "worker": worker, "span": spans[0]}
    overview = server.get("pytorch_profiler/overview", **where)
    assert len(overview["steps"]["rows"]) == 2
    operators = server.get("pytorch_profiler/operation/table", **where, group_by="Operation")
    assert {"aten::linear", "aten::addmm"} <= {row["name"] for row in operators["data"]}
    memory = server.get("pytorch_profiler/memory_curve", **where)
    assert memory["rows"]["CPU"]
    modules = server.get("pytorch_profiler/module", **where)
    assert any("Classifier" in row["name"] for row in modules["data"])
    trace = server.get("pytorch_profiler/trace", **where)
    assert any(event["ph"] == "C" and event["cat"] == "gradscope" for event in trace["traceEvents"] if "cat" in event)


def test_scalars_are_there_for_every_run(server: Server, run: str) -> None:
    tags = server.wait_for("scalars/tags", lambda found: len(found) == len(NAMES))
    assert "memory/parameters_mib" in tags[run]
    points = server.get("scalars/scalars", run=run, tag="loss/loss")
    assert [(step, value) for _, step, value in points] == [(3, 4.0), (4, 3.0), (5, 2.5), (6, 2.0)]


def test_hyperparameters_are_there_with_their_metrics(server: Server, run: str) -> None:
    server.wait_for("scalars/tags", lambda found: len(found) == len(NAMES))
    experiment = server.get("hparams/experiment", body={"experimentName": ""})
    assert {"optimizer", "strategy", "lr"} <= {info["name"] for info in experiment["hparamInfos"]}
    wanted = {
        "experimentName": "",
        "colParams": [{"hparam": "optimizer"}, {"metric": {"tag": "metrics/step_time_ms", "group": ""}}],
        "allowedStatuses": ["STATUS_SUCCESS"],
        "startIndex": 0,
        "sliceSize": 10,
    }
    groups = server.get("hparams/session_groups", body=wanted)["sessionGroups"]
    assert len(groups) == len(NAMES)
    assert {group["hparams"]["optimizer"] for group in groups} == {"adam"}
    values = {value["name"]["tag"]: value["value"] for value in groups[0]["metricValues"]}
    assert values["metrics/step_time_ms"] == 25.0


def test_the_preset_is_there_as_text(server: Server, run: str) -> None:
    server.wait_for("text/tags", lambda found: len(found) == len(NAMES))
    texts = server.get("text/text", run=run, tag="preset")
    assert "adam" in texts[0]["text"]


def test_the_enriched_trace_is_strict_and_complete_and_adds_no_overlap(profiled: Profiled) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"not strict: {constant}")

    before = json.loads(profiled.before, parse_constant=refuse)["traceEvents"]
    after = json.loads(read_bytes(profiled.trace), parse_constant=refuse)["traceEvents"]
    assert all({"ph", "ts", "pid", "tid"} <= event.keys() for event in after)
    assert [event for event in after if event.get("cat") != "gradscope"] == before
    assert partial_overlaps(after) == partial_overlaps(before)


def test_counters_lie_where_the_profiled_steps_lie(profiled: Profiled) -> None:
    document = json.loads(read_bytes(profiled.trace))
    base_s = document["baseTimeNanoseconds"] / 1e9
    steps = [event for event in document["traceEvents"] if str(event.get("name")).startswith("ProfilerStep#")]
    starts = [base_s + event["ts"] / 1e6 for event in steps]
    assert min(starts) == pytest.approx(profiled.first_step_wall_s, abs=0.05)
    counters = [event for event in document["traceEvents"] if event["ph"] == "C"]
    assert {event["name"] for event in counters} >= {"CPU % (100 = one core)"}
    for event in counters:
        assert profiled.first_step_wall_s - 1e-3 <= base_s + event["ts"] / 1e6 <= profiled.last_step_wall_s + 1e-3


def partial_overlaps(events: list[dict[str, Any]]) -> Counter[tuple[Any, Any]]:
    """Count, for each thread, slices that begin within an open one and end after it."""
    by_thread = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            by_thread[event["pid"], event["tid"]].append((event["ts"], -event["dur"]))
    found: Counter[tuple[Any, Any]] = Counter()
    for thread, spans in by_thread.items():
        open_ends: list[float] = []
        for start, negative in sorted(spans):
            end = start - negative
            open_ends = [other for other in open_ends if other > start]
            found[thread] += sum(other < end for other in open_ends)
            open_ends.append(end)
    return found


def test_a_taken_port_is_passed_by_and_sigterm_ends_everything(profiled: Profiled, server: Server) -> None:
    second = Server(profiled.out)
    assert second.url != server.url
    code, _ = second.end(signal.SIGTERM)
    assert code == 128 + signal.SIGTERM
    with pytest.raises(urllib.error.URLError):
        second.get("scalars/tags")
