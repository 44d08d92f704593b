"""`file`, a local text file as bytes, and `folder`, local images in one folder a class."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset

from gradscope.config.schema import DataSettings
from gradscope.core.paths import home_expanded
from gradscope.errors import GradscopeError
from gradscope.worker.contract import Batch, DataSpec
from gradscope.worker.data.images import to_pixels
from gradscope.worker.data.rows import MadeRows, StoredRows, check_data_options, require_task
from gradscope.worker.data.text import TASKS as TEXT_TASKS
from gradscope.worker.data.text import window_row
from gradscope.worker.data.tokens import causal_row, encode, require_vocabulary

IMAGE_ENDINGS = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm"})
IMAGE_TASKS = ("image-class", "image-caption")


def build_text(settings: DataSettings, spec: DataSpec, seed: int) -> Dataset[Batch]:
    """Return random windows of the file at `data.path`, whatever its encoding: its bytes are the tokens.

    Raises:
        GradscopeError: There is no such file, it cannot be read, or it is empty.
    """
    require_task("file", spec, TEXT_TASKS)
    check_data_options(settings)
    require_vocabulary(spec)
    path = _path(settings, "a text file")
    if not path.is_file():
        raise GradscopeError(f"data.path: there is no file {path}", "give the path of a text file")
    try:
        content = np.fromfile(path, dtype=np.uint8)
    except OSError as error:
        raise GradscopeError(f"data.path: {path} cannot be read: {error.strerror}", "check its permissions") from error
    if content.size == 0:
        raise GradscopeError(f"data.path: {path} is empty", "give a file with some text in it")
    return MadeRows(partial(window_row, content, spec), seed)


def build_images(settings: DataSettings, spec: DataSpec, seed: int) -> Dataset[Batch]:
    """Return the images below `data.path`. Its sub-folders, in order of name, are the classes (or the captions).

    Raises:
        GradscopeError: There is no such folder, it holds no images, or more classes than the model has.
    """
    require_task("folder", spec, IMAGE_TASKS)
    check_data_options(settings)
    root = _path(settings, "a folder of images")
    if not root.is_dir():
        raise GradscopeError(f"data.path: there is no folder {root}", "give a folder that holds one folder a class")
    try:
        folders = sorted(entry for entry in root.iterdir() if entry.is_dir())
        found = [(folder.name, _images(folder)) for folder in folders]
    except OSError as error:
        raise GradscopeError(f"data.path: {root} cannot be read: {error.strerror}", "check its permissions") from error
    classes = [(name, paths) for name, paths in found if paths]
    if not classes:
        raise GradscopeError(
            f"data.path: {root} holds no images in sub-folders",
            f"put them into one folder a class; endings: {', '.join(sorted(IMAGE_ENDINGS))}",
        )
    if spec.task == "image-class" and len(classes) > spec.classes:
        raise GradscopeError(
            f"data.path: {root} has {len(classes)} classes, and the model has {spec.classes}",
            f"set model.options.num_labels = {len(classes)}",
        )
    if spec.task == "image-caption":
        require_vocabulary(spec)
    files = [(path, label) for label, (_, paths) in enumerate(classes) for path in paths]
    names = [name for name, _ in classes]
    return StoredRows(len(files), partial(image_row, files, names, spec), seed)


def image_row(
    files: Sequence[tuple[Path, int]], names: Sequence[str], spec: DataSpec, index: int, rng: np.random.Generator
) -> Batch:
    """Read, resize and label one image.

    Raises:
        GradscopeError: It is no image that Pillow can read.
    """
    path, label = files[index]
    try:
        with Image.open(path) as image:
            pixels = to_pixels(image, spec.image_size)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:  # what Pillow's readers raise
        raise GradscopeError(f"{path} cannot be read as an image: {error}", "mend or remove it") from error
    if spec.task == "image-caption":
        caption = names[label].replace("_", " ").replace("-", " ")
        return {"pixel_values": pixels, **causal_row(encode(caption), spec.sequence_length)}
    return {"pixel_values": pixels, "labels": torch.tensor(label)}


def _images(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in IMAGE_ENDINGS)


def _path(settings: DataSettings, what: str) -> Path:
    if settings.path is None:
        raise GradscopeError(f"data set '{settings.name}' needs data.path", f"give the path of {what}")
    return home_expanded(settings.path)
