"""How fast, and in how much memory, a large trace becomes frames: gradscope, HolisticTraceAnalysis, torch-tb-profiler.

Makes its own trace (a small ViT with stacks, shapes and memory, 60 steps, about 580 MB) and loads it with each in fresh
processes, gradscope with all columns. The others are installed from the package index into `benchmarks/.venv`.
Memory is the peak of the process tree's proportional set size, less what the imports alone take (helpers included).

Bars: >= 10 x as fast as HolisticTraceAnalysis; memory <= 1.5 x the file's size; from gzip within 2 x of `gzip -dc`.
The second table loads copies of the same events at sizes from 1 MB to 2 GB: growth must be linear.

Usage: python benchmarks/trace_load.py [--trace FILE] [--steps N] [--repeats N] [--largest-mb N] [--no-others]
"""

import argparse
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

HERE = Path(__file__).resolve().parent
OTHERS = HERE / ".venv" / "bin" / "python"
PACKAGES = ("HolisticTraceAnalysis", "torch-tb-profiler")
SPEED_BAR, MEMORY_BAR, GZIP_BAR, GROWTH_BAR = 10.0, 1.5, 2.0, 1.5
SIZES_MB = (1, 8, 64, 512, 2048)
BLOCK_BYTES = 1 << 20

MAKE = """
import sys, torch
from torch.profiler import ProfilerActivity, profile
from transformers import ViTConfig, ViTForImageClassification
torch.manual_seed(0)
config = ViTConfig(hidden_size=192, num_hidden_layers=12, num_attention_heads=3, intermediate_size=768,
                   image_size=32, patch_size=8, num_labels=10)
model = ViTForImageClassification(config)
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
pixels, classes = torch.randn(2, 3, 32, 32), torch.zeros(2, dtype=torch.long)
options = {"record_shapes": True, "profile_memory": True, "with_stack": True}
with profile(activities=[ProfilerActivity.CPU], **options) as profiler:
    for _ in range(int(sys.argv[1])):
        optimizer.zero_grad()
        model(pixel_values=pixels, labels=classes).loss.backward()
        optimizer.step()
        profiler.step()
profiler.export_chrome_trace(sys.argv[2])
"""

FRAME = """
import sys, time
from pathlib import Path
path = Path(sys.argv[1])
{imports}
print("ready", flush=True)
sys.stdin.readline()
begun = time.perf_counter()
{load}
print(time.perf_counter() - begun, rows, flush=True)
sys.stdin.readline()
"""
GRADSCOPE = (
    "trace = load_trace(path, with_shapes=True, with_stacks=True, processes={processes})\nrows = trace.events.height"
)
IMPORT = "from gradscope.trace.load import load_trace\nfrom gradscope.trace.parallel import Helpers"
IDLE_HELPERS = "with Helpers({processes}, path, with_shapes=True, with_stacks=True):\n    time.sleep(1.5)\nrows = 0"
HTA_IMPORT = """
import logging
logging.disable(logging.CRITICAL)
from hta.common.trace import parse_trace_file
"""
HTA = "frame = parse_trace_file(str(path))[1]\nrows = len(frame)"
TB_IMPORT = """
import logging
logging.disable(logging.CRITICAL)
from torch_tb_profiler.profiler.data import RunProfileData
"""
TB = "data = RunProfileData.parse('worker', 'span', str(path), '/tmp')\nrows = len(data.events)"


def tree_pss(process: psutil.Process) -> int:
    """Return the proportional set size of a process and all below it."""
    total = 0
    for each in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            total += each.memory_full_info().pss
    return total


def measure(python: Path, imports: str, load: str, trace: Path, *, memory: bool) -> tuple[float, int, int, int]:
    """Run a loader in a fresh process; return (seconds, rows, PSS after the imports, peak PSS)."""
    script = FRAME.format(imports=imports, load=load)
    with subprocess.Popen(
        [str(python), "-W", "ignore", "-c", script, str(trace)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            sys.exit(f"{python} could not import its loader")
        watched = psutil.Process(process.pid)
        before = peak = tree_pss(watched)
        process.stdin.write("go\n")
        process.stdin.flush()
        answer: list[str] = []
        waiting = threading.Thread(target=lambda: answer.append(process.stdout.readline()))
        waiting.start()
        while waiting.is_alive():
            waiting.join(0.05 if memory else None)
            peak = max(peak, tree_pss(watched)) if waiting.is_alive() else peak
        if not answer[0]:
            sys.exit(f"{python} failed to load {trace}")
        process.stdin.write("end\n")
        process.stdin.flush()
        seconds, rows = answer[0].split()
    return float(seconds), int(rows), before, peak


def make_trace(path: Path, steps: int) -> None:
    """Profile the ViT and write its trace."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", MAKE, str(steps), str(path)], check=True)


def others() -> None:
    """Install the loaders to compare with into an environment of their own."""
    if not OTHERS.exists():
        subprocess.run([sys.executable, "-m", "venv", str(OTHERS.parent.parent)], check=True)
    found = subprocess.run([str(OTHERS), "-c", "import hta, torch_tb_profiler"], check=False, capture_output=True)
    if found.returncode:
        subprocess.run([str(OTHERS), "-m", "pip", "install", "--quiet", *PACKAGES], check=True)


def row(name: str, seconds: float, rows: int | str, memory: float | None, size: float) -> None:
    """Print a row of the first table."""
    shown = "" if memory is None else f"{memory / 1e6:>9.0f}  {memory / size:>9.2f}"
    print(f"{name:<36}  {seconds:>8.2f}  {size / 1e6 / seconds:>7.0f}  {rows:>9}  {shown}", flush=True)


def loaders(repeats: int, trace: Path, packed: Path, *, with_others: bool) -> list[str]:
    """Print the first table; return what misses its bar."""
    size = trace.stat().st_size
    begun = time.perf_counter()
    with trace.open("rb") as file:
        while file.read(BLOCK_BYTES):
            pass
    row("plain read", time.perf_counter() - begun, "", None, size)
    inflate = statistics.median(timed(["gzip", "-dc", str(packed)]) for _ in range(repeats))
    row("plain decompression (gzip -dc)", inflate, "", None, size)

    here = Path(sys.executable)
    todo: list[tuple[str, Path, str, str, Path, int]] = [
        ("gradscope", here, IMPORT, GRADSCOPE.format(processes=None), trace, 2),
        ("gradscope, one process", here, IMPORT, GRADSCOPE.format(processes=1), trace, 0),
        ("gradscope, from gzip", here, IMPORT, GRADSCOPE.format(processes=None), packed, 2),
    ]
    if with_others:
        todo += [
            ("HolisticTraceAnalysis", OTHERS, HTA_IMPORT, HTA, trace, 0),
            ("torch-tb-profiler", OTHERS, TB_IMPORT, TB, trace, 0),
        ]
    times: dict[str, list[float]] = {name: [] for name, *_ in todo}
    for _ in range(repeats):  # in turns: what else the machine does then hits all alike
        for name, python, imports, load, path, _ in todo:
            times[name].append(measure(python, imports, load, path, memory=False)[0])
    seconds = {name: statistics.median(each) for name, each in times.items()}
    used: dict[str, int] = {}
    for name, python, imports, load, path, helpers in todo:
        _, rows, before, peak = measure(python, imports, load, path, memory=True)
        if helpers:  # their imports are imports, too
            before = measure(python, imports, IDLE_HELPERS.format(processes=helpers), path, memory=True)[3]
        used[name] = peak - before
        row(name, seconds[name], rows, used[name], size)
    missed = []
    if with_others:
        ratio = seconds["HolisticTraceAnalysis"] / seconds["gradscope"]
        print(f"\ngradscope is {ratio:.1f} x as fast as HolisticTraceAnalysis", end="")
        print(f" and {seconds['torch-tb-profiler'] / seconds['gradscope']:.1f} x as fast as torch-tb-profiler")
        missed += [f"speed: {ratio:.1f} x"] if ratio < SPEED_BAR else []
    missed += [f"memory of {name}" for name in seconds if "grad" in name and used[name] > MEMORY_BAR * size]
    share = seconds["gradscope, from gzip"] / inflate
    print(f"from gzip it takes {share:.2f} x plain decompression")
    return missed + ([f"gzip: {share:.2f} x"] if share > GZIP_BAR else [])


def timed(command: list[str]) -> float:
    """Return how long a command takes."""
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def growth(trace: Path, folder: Path, largest_mb: int) -> list[str]:
    """Load copies of the same events at several sizes; print time and memory a MB."""
    with trace.open("rb") as file:
        head = file.read(8 << 20)
    start = head.index(b'"traceEvents"')
    start = head.index(b"[", start) + 1
    begin = head.index(b'{\n    "ph": "X"', start)
    block = head[begin : head.rindex(b"},\n", begin, begin + BLOCK_BYTES) + 1]
    print("\n   size MB    seconds   ms/MB   memory MB   x size", flush=True)
    rates = []
    for size_mb in (size for size in SIZES_MB if size <= largest_mb):
        path = folder / f"{size_mb}.json"
        with path.open("wb") as file:
            file.write(head[:start])
            for number in range(size_mb):
                file.write((b",\n" if number else b"") + block)
            file.write(b"]}")
        size = path.stat().st_size
        load = GRADSCOPE.format(processes=1)
        taken, _, _, _ = measure(Path(sys.executable), IMPORT, load, path, memory=False)
        _, _, before, peak = measure(Path(sys.executable), IMPORT, load, path, memory=True)
        path.unlink()
        rates.append((size_mb, 1e9 * taken / size))
        used = peak - before
        print(
            f"{size / 1e6:>10.1f}  {taken:>9.2f}  {rates[-1][1]:>6.1f}  {used / 1e6:>10.0f}  {used / size:>7.2f}",
            flush=True,
        )
    steady = [rate for size_mb, rate in rates if size_mb >= 64]
    if steady and max(steady) > GROWTH_BAR * min(steady):
        return [f"growth: {min(steady):.1f} to {max(steady):.1f} ms/MB"]
    return []


def main() -> None:
    """Print both tables; exit with 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", type=Path, help="an uncompressed trace to load instead of a new one")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--largest-mb", type=int, default=SIZES_MB[-1])
    parser.add_argument("--no-others", action="store_true")
    options = parser.parse_args()
    if not options.no_others:
        others()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trace = options.trace or folder / "vit.json"
        if options.trace is None:
            make_trace(trace, options.steps)
        packed = folder / "packed.json.gz"
        with packed.open("wb") as file:
            subprocess.run(["gzip", "-c", str(trace)], check=True, stdout=file)
        print(f"{trace.stat().st_size / 1e6:.0f} MB, {packed.stat().st_size / 1e6:.0f} MB compressed", end="; ")
        print(f"{len(os.sched_getaffinity(0))} cores; median of {options.repeats}\n")
        print(f"{'':<36}   seconds     MB/s       rows  memory MB  x size")
        missed = loaders(options.repeats, trace, packed, with_others=not options.no_others)
        packed.unlink()
        if shutil.disk_usage(folder).free > (options.largest_mb << 20) * 1.2:
            missed += growth(trace, folder, options.largest_mb)
    if missed:
        sys.exit("missed: " + ", ".join(missed))


if __name__ == "__main__":
    main()
