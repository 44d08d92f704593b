"""What gradscope, torch-tb-profiler and HolisticTraceAnalysis say of the same real traces, side by side.

The traces are those of `tests/cases/traces/real` and the CUDA-shaped `base_gpu.json`; the others run in the environment
of `trace_load.py`. P is torch-tb-profiler, the plugin; H is HolisticTraceAnalysis, its last step included. Each figure
stands once, and in brackets what another one says that says otherwise; `docs/traces.md` holds the table, and why.

Usage: python benchmarks/trace_agreement.py [TRACE...]
"""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl
from trace_load import OTHERS, others

from gradscope.trace.communication import communication
from gradscope.trace.idle import idle
from gradscope.trace.kernels import kernels
from gradscope.trace.load import load_trace
from gradscope.trace.operators import operators
from gradscope.trace.steps import steps

CASES = Path(__file__).resolve().parent.parent / "tests" / "cases" / "traces"
FIGURES = {
    "steps": "steps",
    "steps_ms": "their time",
    "busy_ms": "kernels in them, union",
    "kernels": "kernels",
    "kernels_ms": "their sum",
    "memory_ms": "copies and fills",
    "host_wait_ms": "host wait",
    "kernel_wait_ms": "kernel wait",
    "other_ms": "other wait",
    "overlap_pct": "overlap, %",
    "operator_calls": "operators",
    "operators_self_ms": "own time",
    "operators_ms": "whole time",
}
"""Key to the head of its column; times are ms, waits summed over streams."""
SAME = 0.0005
"""Two figures are one if they differ by less than this share: HolisticTraceAnalysis counts whole us."""

THEIRS = """
import json, logging, sys, tempfile, warnings
warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
from torch_tb_profiler.profiler.data import RunProfileData
from torch_tb_profiler.profiler.event_parser import ProfileRole

path = sys.argv[1]


def plugin():
    with tempfile.TemporaryDirectory() as cache:
        data = RunProfileData.parse("worker", "span", path, cache)
    role = lambda role: sum(step.costs[role] for step in data.steps_costs) / 1e3
    ops, found = data.op_list_groupby_name, data.kernel_stat
    figures = {"steps": len(data.steps_names), "steps_ms": role(ProfileRole.Total)}
    if found is not None:
        figures |= {"kernels": int(found["count"].sum()), "kernels_ms": float(found["sum"].sum()) / 1e3}
        figures["busy_ms"] = role(ProfileRole.Kernel)
    return figures | {
        "operator_calls": sum(op.calls for op in ops),
        "operators_self_ms": sum(op.self_host_duration for op in ops) / 1e3,
        "operators_ms": sum(op.host_duration for op in ops) / 1e3,
    }


def analysis():
    found = TraceAnalysis(trace_files={0: path}, trace_dir="/", include_last_profiler_step=True)
    frame, names = found.t.get_trace(0), found.t.symbol_table.get_sym_table()
    ops = frame[frame["cat"].map(lambda cat: names[cat] == "cpu_op")]
    figures = {"operator_calls": len(ops), "operators_ms": float(ops["dur"].sum()) / 1e3}
    figures["steps"] = len(found.get_profiler_steps())
    if not (frame["stream"] >= 0).any():
        return figures
    options = {"visualize": False, "include_memory_kernels": True, "duration_ratio": 1.0, "num_kernels": 10**6}
    kinds = found.get_gpu_kernel_breakdown(**options)[1].groupby("kernel_type")["sum (us)"].sum() / 1e3
    figures["kernels_ms"] = float(kinds.get("COMPUTATION", 0) + kinds.get("COMMUNICATION", 0))
    figures["memory_ms"] = float(kinds.get("MEMORY", 0))
    gaps = found.get_idle_time_breakdown(ranks=[0], visualize=False)[0]
    for kind in ("host_wait", "kernel_wait", "other"):
        figures[kind + "_ms"] = float(gaps[gaps["idle_category"] == kind]["idle_time"].sum()) / 1e3
    if kinds.get("COMMUNICATION", 0):
        figures["overlap_pct"] = float(found.get_comm_comp_overlap(visualize=False)["comp_comm_overlap_pctg"][0])
    return figures


told = {}
for name, ask in (("P", plugin), ("H", analysis)):
    try:
        told[name] = ask()
    except Exception as error:
        told[name] = {}
        print(path, name, "fails:", type(error).__name__, error, file=sys.stderr)
print("told " + json.dumps(told))
"""


def ours(path: Path) -> dict[str, float | None]:
    """Return gradscope's figures."""
    trace = load_trace(path)
    found, table, work, gaps, talk = steps(trace), operators(trace), kernels(trace), idle(trace), communication(trace)
    table = table.filter(pl.col("kind") == "operator")
    figures: dict[str, float | None] = {
        "steps": found.count,
        "steps_ms": _ms(found.table["dur_ns"]) if found.count else _ms(found.whole["dur_ns"]),
        "operator_calls": int(table["calls"].sum()),
        "operators_self_ms": _ms(table["self_host_ns"]),
        "operators_ms": _ms(table["host_ns"]),
    }
    if not found.has_device_events:
        return figures
    is_kernel = pl.col("kind") == "kernel"
    figures["kernels"] = int(work.filter(is_kernel)["calls"].sum())
    figures["kernels_ms"] = _ms(work.filter(is_kernel)["total_ns"])
    figures["memory_ms"] = _ms(work.filter(~is_kernel)["total_ns"])
    for kind in ("host wait", "kernel wait", "other"):
        waited = gaps.per_stream.filter(pl.col("kind") == kind)["idle_ns"]
        figures[f"{kind.replace(' ', '_')}_ms"] = _ms(waited)
    figures["busy_ms"] = _ms(found.table["gpu_busy_ns"]) if found.count else _ms(found.totals["union_ns"])
    figures["overlap_pct"] = talk.overlap_pct
    return figures


def _ms(times_ns: pl.Series) -> float:
    return float(times_ns.sum()) / 1e6


def theirs(path: Path) -> dict[str, dict[str, Any]]:
    """Return the others' figures."""
    command = [str(OTHERS), "-W", "ignore", "-c", THEIRS, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    answer = next(line for line in done.stdout.splitlines() if line.startswith("told "))
    return json.loads(answer.removeprefix("told "))  # type: ignore[no-any-return]


def cells(path: Path) -> Iterable[str]:
    """Yield a cell a figure: what gradscope says, and in brackets what another one says that says otherwise."""
    here, there = ours(path), theirs(path)
    for key in FIGURES:
        mine, others_ = here.get(key), {tool: there[tool].get(key) for tool in there}
        apart = [f"{tool} {shown(value)}" for tool, value in others_.items() if differs(mine, value)]
        text = shown(mine) if any(value is not None for value in others_.values()) else ""
        yield f"{text} ({', '.join(apart)})" if apart else text


def shown(value: float | None) -> str:
    """Return a figure as text."""
    return "none" if value is None else str(value) if isinstance(value, int) else f"{value:.3f}"


def differs(mine: float | None, theirs: float | None) -> bool:
    """Whether a figure is told and is another one."""
    if theirs is None:
        return False
    return abs((mine or 0) - theirs) > max(SAME * abs(theirs), 0.001)


def main() -> None:
    """Print one Markdown table for all traces."""
    others()
    paths = [Path(text) for text in sys.argv[1:]]
    print(f"| trace | {' | '.join(FIGURES.values())} |\n|{'---|' * (len(FIGURES) + 1)}")
    for path in paths or [*sorted((CASES / "real").glob("*.json*")), CASES / "base_gpu.json"]:
        print(f"| {path.name} | {' | '.join(cells(path))} |", flush=True)


if __name__ == "__main__":
    main()
