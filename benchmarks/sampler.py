"""What the sampler costs: its share of a core at 10 Hz, beside a tree of 8 processes and 0, 1 and 4 stub cards.

Bar: below 5 % of a core. The stub answers at once, so this is the sampler's own work; a driver adds what its calls
cost. Needs a C compiler for the stub.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent / "tests"
SECONDS = 6
BAR_PCT = 5.0
INTERVAL_MS = 100.0
CHILDREN = 7
CARDS = (0, 1, 4)
TREE = f"""
import subprocess, sys
for _ in range({CHILDREN}):
    subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"])
sys.stdin.read()
"""


def measure(cards: int) -> None:
    """Run the sampler over a tree of sleeping processes for a while and print one row."""
    from gradscope.core.samples import SamplerEnded
    from gradscope.rundir.append import JsonlWriter
    from gradscope.sampling.loop import Sampler

    lines = []
    with tempfile.TemporaryDirectory() as folder:
        tree = subprocess.Popen([sys.executable, "-c", TREE], stdin=subprocess.PIPE)
        writer = JsonlWriter(Path(folder) / "samples.jsonl")

        def emit(line):
            lines.append(line)
            writer.append(line)

        sampler = Sampler(root_pid=tree.pid, disk_path=Path(folder), emit=emit, interval_ms=INTERVAL_MS)
        begun, cpu = time.monotonic(), time.process_time()
        sampler.start()
        time.sleep(SECONDS)
        sampler.stop()
        whole_pct = 100 * (time.process_time() - cpu) / (time.monotonic() - begun)
        size = writer.size_bytes
        writer.close()
        tree.communicate()
    ended = next(line for line in lines if isinstance(line, SamplerEnded))
    print(
        f"{cards:>5}  {ended.samples:>7}  {ended.missed:>6}  {ended.interval_ms:>11.2f}  {ended.cpu_pct:>9.2f}"
        f"  {whole_pct:>11.2f}  {size // ended.samples:>12}",
        flush=True,
    )
    if whole_pct > BAR_PCT:
        sys.exit(f"the sampler takes {whole_pct:.1f} % of a core, more than {BAR_PCT} %")


def main() -> None:
    sys.path.insert(0, str(TESTS))
    from nvml_stub.build import build, gpu

    print(f"sampler at {INTERVAL_MS:g} ms, a tree of {CHILDREN + 1} processes, {SECONDS} s each\n")
    print("cards  samples  missed  interval ms  own CPU %  process CPU %  bytes/sample")
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        for cards in CARDS:
            # unlike models without an order are all watched, since any may be the run's
            lines = [line for n in range(cards) for line in gpu(f"GPU-{n}", f"00000000:0{n}:00.0", f"Card {n}")]
            script = Path(folder) / f"{cards}.script"
            script.write_text("".join(f"{line}\n" for line in lines))
            env = {**os.environ, "LD_LIBRARY_PATH": folder, "NVML_STUB_SCRIPT": str(script)}
            env.pop("CUDA_VISIBLE_DEVICES", None)
            done = subprocess.run([sys.executable, __file__, str(cards)], env=env, check=False)
            if done.returncode:
                sys.exit(done.returncode)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        measure(int(sys.argv[1]))
    else:
        main()
