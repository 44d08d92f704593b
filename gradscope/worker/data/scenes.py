"""Made-up scenes: one large coloured shape, mostly with a smaller one beside it, as a picture and as a sentence."""

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

COLOURS: dict[str, tuple[float, float, float]] = {
    "red": (0.9, 0.1, 0.1),
    "blue": (0.1, 0.2, 0.9),
    "green": (0.1, 0.8, 0.1),
    "yellow": (0.95, 0.9, 0.1),
    "magenta": (0.9, 0.1, 0.9),
    "cyan": (0.1, 0.9, 0.9),
    "white": (1.0, 1.0, 1.0),
    "black": (0.0, 0.0, 0.0),
}
"""Name to red, green, blue in 0 to 1."""

SHAPES = ("circle", "square", "triangle", "cross", "ring", "diamond")

RELATIONS: dict[str, tuple[int, int]] = {"left of": (-1, 0), "right of": (1, 0), "above": (0, -1), "below": (0, 1)}
"""Where the subject lies as seen from the other object; y grows downwards."""

CLASSES: tuple[tuple[str, str], ...] = tuple(
    (tuple(COLOURS)[colour], SHAPES[shape])
    for colour, shape in sorted(product(range(len(COLOURS)), range(len(SHAPES))), key=lambda pair: (max(pair), pair))
)
"""All 48 (colour, shape) pairs. The first n * n of them are the first n colours with the first n shapes."""

SINGLE_SHARE = 0.25
"""Share of scenes with the subject alone."""
NOISE = 0.1
"""Width of the uniform noise on every pixel, of a range of 1."""

Pixels = NDArray[np.float32]
Offsets = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class Thing:
    """One object: what it is, and where, in units of the image's side."""

    colour: str
    shape: str
    size: str
    x: float
    y: float
    radius: float

    def phrase(self) -> str:
        """Return e.g. `a large red circle`."""
        return f"a {self.size} {self.colour} {self.shape}"


@dataclass(frozen=True, slots=True)
class Scene:
    """The subject, and the smaller object it stands beside."""

    subject: Thing
    label: int
    """Index of the subject's colour and shape in `CLASSES`."""
    relation: str | None
    other: Thing | None

    def caption(self) -> str:
        """Return e.g. `a large red circle left of a tiny blue square`."""
        if self.other is None or self.relation is None:
            return self.subject.phrase()
        return f"{self.subject.phrase()} {self.relation} {self.other.phrase()}"


def sample_scene(rng: np.random.Generator, classes: int = len(CLASSES)) -> Scene:
    """Draw a scene whose subject is one of the first `classes` of `CLASSES`.

    Args:
        rng: Where all of it comes from.
        classes: Upper bound of labels; more than there are classes means all of them.
    """
    label = int(rng.integers(min(classes, len(CLASSES))))
    colour, shape = CLASSES[label]
    large = bool(rng.integers(2))
    radius = float(rng.uniform(0.24, 0.28) if large else rng.uniform(0.17, 0.2))
    size = "large" if large else "small"
    jitter = rng.uniform(-0.05, 0.05, size=4).tolist()
    if rng.random() < SINGLE_SHARE:
        x, y = rng.uniform(0.35, 0.65, size=2).tolist()
        return Scene(Thing(colour, shape, size, x, y, radius), label, None, None)
    relation = tuple(RELATIONS)[int(rng.integers(len(RELATIONS)))]
    dx, dy = RELATIONS[relation]
    subject = Thing(colour, shape, size, 0.5 + 0.17 * dx + jitter[0], 0.5 + 0.17 * dy + jitter[1], radius)
    other = Thing(
        tuple(COLOURS)[int(rng.integers(len(COLOURS)))],
        SHAPES[int(rng.integers(len(SHAPES)))],
        "tiny",
        0.5 - 0.33 * dx + jitter[2],
        0.5 - 0.33 * dy + jitter[3],
        float(rng.uniform(0.07, 0.1)),
    )
    return Scene(subject, label, relation, other)


def covers(shape: str, dx: Offsets, dy: Offsets) -> NDArray[np.bool_]:
    """Say which points belong to a shape of radius 1 around the origin.

    Args:
        shape: One of `SHAPES`.
        dx: `[1, w]`, to the right.
        dy: `[h, 1]`, downwards.
    """
    across, down = np.abs(dx), np.abs(dy)
    match shape:
        case "circle":
            return dx * dx + dy * dy <= 1.0
        case "ring":
            distance = dx * dx + dy * dy
            return (distance <= 1.0) & (distance >= 0.3)
        case "square":
            return (across <= 0.85) & (down <= 0.85)
        case "diamond":
            return across + down <= 1.0
        case "cross":
            return ((across <= 0.3) & (down <= 1.0)) | ((down <= 0.3) & (across <= 1.0))
        case _:
            return (dy <= 0.8) & (across * 1.8 <= dy + 1.0)


def draw(scene: Scene, size: int, rng: np.random.Generator) -> Pixels:
    """Return the scene as `[3, size, size]` float32 in -1 to 1, on a grey ground with noise."""
    ground = rng.uniform(0.35, 0.6)
    image = rng.random((3, size, size), dtype=np.float32)
    image *= NOISE
    image += np.float32(ground - NOISE / 2)
    centres = (np.arange(size, dtype=np.float32) + 0.5) / size
    for thing in (scene.other, scene.subject):
        if thing is None:
            continue
        x0, x1 = _span(thing.x, thing.radius, size)
        y0, y1 = _span(thing.y, thing.radius, size)
        dx = (centres[x0:x1] - thing.x)[None, :] / thing.radius
        dy = (centres[y0:y1] - thing.y)[:, None] / thing.radius
        paint = np.array(COLOURS[thing.colour], dtype=np.float32)[:, None, None]
        box = image[:, y0:y1, x0:x1]
        np.copyto(box, paint, where=covers(thing.shape, dx, dy)[None])
    image *= 2.0
    image -= 1.0
    return image


def _span(centre: float, radius: float, size: int) -> tuple[int, int]:
    """Return the pixel range that an object can touch along one axis."""
    return max(0, int((centre - radius) * size) - 1), min(size, int((centre + radius) * size) + 2)
