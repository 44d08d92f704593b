"""From a Pillow image to a model's pixels."""

import numpy as np
import torch
from PIL import Image


def to_pixels(image: Image.Image, size: int) -> torch.Tensor:
    """Return the image as `[3, size, size]` float32 in -1 to 1, resized without regard to its aspect ratio."""
    small = image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR)
    values = np.asarray(small, dtype=np.float32) / np.float32(127.5) - np.float32(1.0)
    return torch.from_numpy(np.ascontiguousarray(values.transpose(2, 0, 1)))
