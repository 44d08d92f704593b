"""A small training run under torch.profiler: `python profiled_run.py FOLDER` writes traces and torch's sums of them.

For each of `plain`, `threads`, `frames`, `stacks`: `NAME.json`, the trace, and `NAME.sums.json`, rows of
`key_averages()` by name, by input shape and by stack.
"""

import json
import sys
import threading
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, record_function

STACK_DEPTH = 5


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(50, 16)
        self.hidden = torch.nn.Linear(16, 32)
        self.last = torch.nn.Linear(32, 4)

    def forward(self, tokens):
        with record_function("outer"):
            with record_function("inner"):
                mean = self.table(tokens).mean(1)
            return self.last(torch.relu(self.hidden(mean)))


def update(net, optimizer, *, own_thread):
    tokens, labels = torch.randint(0, 50, (8, 5)), torch.randint(0, 4, (8,))
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(tokens), labels)
    if own_thread:
        backward = threading.Thread(target=loss.backward)
        backward.start()
        tokens.double().sum()  # work on this thread meanwhile, with memory of its own
        backward.join()
    else:
        loss.backward()
    optimizer.step()


def sums(profiler, **grouping):
    return [
        {
            "name": row.key,
            "annotation": row.is_user_annotation,
            "calls": row.count,
            "host_ns": round(row.cpu_time_total * 1000),
            "self_host_ns": round(row.self_cpu_time_total * 1000),
            "memory_bytes": row.cpu_memory_usage,
            "self_memory_bytes": row.self_cpu_memory_usage,
            "shapes": row.input_shapes,
            "stack": row.stack,
        }
        for row in profiler.key_averages(**grouping)
    ]


def record(folder, name, *, own_thread=False, with_stack=False, verbose=False):
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), foreach=True)  # lists of tensors as inputs
    update(net, optimizer, own_thread=own_thread)
    settings = torch._C._profiler._ExperimentalConfig(verbose=verbose)
    options = {"record_shapes": True, "profile_memory": True, "with_stack": with_stack, "experimental_config": settings}
    with profile(activities=[ProfilerActivity.CPU], **options) as profiler:
        for _ in range(3):
            update(net, optimizer, own_thread=own_thread)
            profiler.step()
    profiler.export_chrome_trace(str(folder / f"{name}.json"))
    by = {
        "name": sums(profiler),
        "name+shape": sums(profiler, group_by_input_shape=True),
        "stack": sums(profiler, group_by_stack_n=STACK_DEPTH),
    }
    (folder / f"{name}.sums.json").write_text(json.dumps(by))


if __name__ == "__main__":
    torch.set_num_threads(1)
    target = Path(sys.argv[1])
    record(target, "plain")
    record(target, "threads", own_thread=True)
    record(target, "frames", with_stack=True)
    record(target, "stacks", with_stack=True, verbose=True)
