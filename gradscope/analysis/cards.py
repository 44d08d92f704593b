"""What cards promise: peak floating-point rates by precision, from their makers' data sheets.

Rates are dense (without structured sparsity), in FLOP/s. `fp32` is the rate outside tensor cores, which is what torch
uses for matrix products unless TF32 is switched on; `bf16` and `fp16` are tensor cores accumulating in fp32. Sources:
NVIDIA's data sheets of each card, and the architecture white papers of Ampere GA102 (3090, A6000) and Ada (4090, RTX
6000 Ada); where a sheet gives only the sparse rate, half of it.
"""

from dataclasses import dataclass

TERA = 1e12


@dataclass(frozen=True, slots=True)
class Card:
    """One card: a word of its name, and its peaks in TFLOP/s."""

    name: str
    fp32: float
    bf16: float | None
    fp16: float


CARDS: tuple[Card, ...] = (
    Card("H200 NVL", 60.0, 835.5, 835.5),
    Card("H200", 67.0, 989.5, 989.5),
    Card("GH200", 67.0, 989.5, 989.5),
    Card("H100 NVL", 60.0, 835.5, 835.5),
    Card("H100 PCIe", 51.0, 756.5, 756.5),
    Card("H100", 67.0, 989.5, 989.5),
    Card("A100", 19.5, 312.0, 312.0),
    Card("A40", 37.4, 149.7, 149.7),
    Card("A30", 10.3, 165.0, 165.0),
    Card("A10", 31.2, 125.0, 125.0),
    Card("L40S", 91.6, 362.0, 362.0),
    Card("L4", 30.3, 121.0, 121.0),
    Card("T4", 8.1, None, 65.0),
    Card("V100-SXM2", 15.7, None, 125.0),
    Card("V100-PCIE", 14.0, None, 112.0),
    Card("RTX 6000 Ada", 91.1, 364.2, 364.2),
    Card("RTX A6000", 38.7, 154.8, 154.8),
    Card("RTX 4090", 82.6, 165.2, 165.2),
    Card("RTX 3090", 35.6, 71.0, 71.0),
)
"""The first whose name is found among the words of torch's device name is taken, so longer names come first."""


def peak_flops_per_second(device_name: str | None, precision: str | None) -> float | None:
    """Return the data sheet's dense peak in FLOP/s; `None` for an unknown card or precision, a CPU, and a MIG slice."""
    if device_name is None or "MIG" in device_name:
        return None
    words = _words(device_name)
    card = next((card for card in CARDS if f" {_words(card.name).strip()} " in words), None)
    if card is None:
        return None
    peak = {"fp32": card.fp32, "bf16": card.bf16, "fp16": card.fp16}.get(precision or "")
    return None if peak is None else peak * TERA


def _words(name: str) -> str:
    """Return `name` in lower case with single spaces around its words: a `4090 D` is found, `L40` is not in `L40S`."""
    return f" {' '.join(name.lower().replace('-', ' ').split())} "
