"""`python -m gradscope.worker.estimate`: a resolved preset (JSON) on each line of stdin, an `Answer` on each of stdout.

Torch is imported once for all of them. Started by `gradscope.launch.estimate`, not by hand.
"""

import os
import sys

import msgspec

from gradscope.config.convert import preset_from_dict
from gradscope.core.estimate import Answer, Refusal
from gradscope.errors import GradscopeError


def main() -> int:
    """Answer until stdin ends."""
    with os.fdopen(os.dup(1), "wb", buffering=0) as answers:
        os.dup2(2, 1)  # what models print is no answer
        for line in sys.stdin.buffer:
            answers.write(msgspec.json.encode(answer(line)) + b"\n")
    return 0


def answer(line: bytes) -> Answer:
    """Foretell one preset, or say why not."""
    from gradscope.worker.estimate.trace import foretell
    from gradscope.worker.failures import told_first

    try:
        return Answer(estimate=foretell(preset_from_dict(msgspec.json.decode(line))))
    except GradscopeError as error:
        hint = "run it: the traceback is then in the run's log" if "log" in error.hint else error.hint
        return Answer(refusal=Refusal(message=error.message, hint=hint, exit_code=int(error.exit_code)))
    except Exception as raised:  # whatever a model does with tensors that have no data is the answer
        first = told_first(raised)
        text = (str(first).strip().splitlines() or [""])[0]
        return Answer(
            refusal=Refusal(
                message=f"the update cannot be foretold: {type(first).__name__}: {text}",
                hint="run it: summary.json has its peak",
            )
        )


if __name__ == "__main__":
    sys.exit(main())
