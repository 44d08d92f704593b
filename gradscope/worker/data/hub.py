"""`hf:DATASET`: a data set of the Hugging Face hub, or a local folder of one, through the optional package datasets.

`data.options`: `config` (the data set's configuration), `split` (`train`), and the names of the columns `text`,
`image` and `label` where they are not the usual ones. Text becomes bytes, cut or filled up to the row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset

from gradscope.config.schema import DataSettings
from gradscope.core.paths import home_expanded
from gradscope.errors import ExitCode, GradscopeError
from gradscope.worker.contract import Batch, DataSpec, Task
from gradscope.worker.data.images import to_pixels
from gradscope.worker.data.rows import StoredRows, check_data_options, require_task
from gradscope.worker.data.tokens import causal_row, encode, require_vocabulary, text_row
from gradscope.worker.reach import require_hub
from gradscope.worker.targets import suggestion

ROLES: dict[Task, tuple[str, ...]] = {
    "image-class": ("image", "label"),
    "image-caption": ("image", "text"),
    "masked-lm": ("text",),
    "causal-lm": ("text",),
}
"""The columns that each task needs."""

USUAL: dict[str, tuple[str, ...]] = {
    "image": ("image", "img", "picture", "photo", "jpg", "png"),
    "label": ("label", "labels", "fine_label", "class", "target"),
    "text": ("text", "caption", "captions", "content", "sentence", "document", "article", "story"),
}
"""How these columns are usually called, best first."""

SAVED = ("dataset_info.json", "state.json", "dataset_dict.json")
"""Files that say that a folder was written by `save_to_disk`."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The names of the columns that rows are made of."""

    text: str = ""
    image: str = ""
    label: str = ""


def build(settings: DataSettings, spec: DataSpec, seed: int) -> Dataset[Batch]:
    """Return rows of a data set of the hub.

    Raises:
        GradscopeError: The package is missing, the data set cannot be had, or its columns do not fit the task.
    """
    require_task(settings.name, spec, ROLES)
    check_data_options(settings, ("config", "split", *USUAL))
    table = load(settings)
    columns = choose_columns(settings.name, spec.task, table.column_names, settings.options)
    if columns.text:
        require_vocabulary(spec)
    classes = getattr(table.features.get(columns.label), "num_classes", None) if columns.label else None
    if classes is not None and classes > spec.classes:
        raise _too_many(settings.name, classes, spec)
    return StoredRows(len(table), TableRow(settings.name, table, columns, spec), seed)


def load(settings: DataSettings) -> Any:
    """Return the split as a `datasets.Dataset`."""
    try:
        datasets = import_module("datasets")
    except ImportError as error:
        raise GradscopeError(
            f"data set '{settings.name}' needs the package datasets",
            "pip install 'gradscope-tui[datasets]'",
            exit_code=ExitCode.ENVIRONMENT,
        ) from error
    source = settings.name.removeprefix("hf:")
    split = settings.options.get("split", "train")
    folder = home_expanded(source)
    if not folder.is_dir() and (source.startswith((".", "/", "~")) or source.count("/") > 1):
        raise GradscopeError(f"there is no folder {source}", "the form is hf:FOLDER or hf:OWNER/NAME")
    if not folder.is_dir() and not _offline():
        require_hub(
            f"data set '{source}' comes from the hub", "set HF_HUB_OFFLINE=1 if it is cached, or give a local folder"
        )
    try:
        if any((folder / name).is_file() for name in SAVED):
            return _split_of(datasets.load_from_disk(str(folder)), split, settings.options)
        place = str(folder) if folder.is_dir() else source
        return datasets.load_dataset(place, settings.options.get("config"), split=split)
    except Exception as error:  # it runs the readers of many formats, and raises what they raise
        detail = " ".join(str(error).split())
        raise GradscopeError(
            f"{settings.name} cannot be loaded: {type(error).__name__}: {detail}",
            "check the name, data.options.config and data.options.split",
        ) from error


def _split_of(found: Any, split: str, options: Mapping[str, Any]) -> Any:
    """Return one split of a saved folder, which holds several, or a single one that may not know its name."""
    if isinstance(found, Mapping):
        return found[split]
    if "split" in options and getattr(found, "split", None) not in (None, split):
        raise ValueError(f"the folder holds the split '{found.split}' alone")
    return found


def choose_columns(name: str, task: Task, present: Sequence[str], options: Mapping[str, Any]) -> Columns:
    """Return the columns for a task: those named in the options, else the usual ones that are present.

    Args:
        name: The data set's, for messages.
        task: What the model does.
        present: The data set's columns.
        options: `data.options`.

    Raises:
        GradscopeError: A column is named that does not exist, or none of the usual ones does.
    """
    chosen: dict[str, str] = {}
    for role in ROLES[task]:
        asked = options.get(role)
        if asked is not None and asked not in present:
            raise GradscopeError(
                f"data.options.{role}: {name} has no column '{asked}'", suggestion(str(asked), present)
            )
        found = asked or next((usual for usual in USUAL[role] if usual in present), None)
        if found is None:
            raise GradscopeError(
                f"{name} has no column that looks like {role}; it has {', '.join(present) or 'none'}",
                f"name it: data.options.{role}",
            )
        chosen[role] = found
    return Columns(**chosen)


@dataclass(frozen=True, slots=True)
class TableRow:
    """Reads one row of a table and makes of it what the task needs."""

    name: str
    table: Any
    columns: Columns
    spec: DataSpec

    def __call__(self, index: int, rng: np.random.Generator) -> Batch:
        """Read row `index`.

        Raises:
            GradscopeError: A value has not the type that its column should have.
        """
        record = self.table[index]
        pixels: Batch = {}
        if self.columns.image:
            image = record[self.columns.image]
            if not isinstance(image, Image.Image):
                raise self._wrong(index, self.columns.image, "image", image)
            pixels = {"pixel_values": to_pixels(image, self.spec.image_size)}
        if self.columns.label:
            return {**pixels, "labels": torch.tensor(self._label(index, record[self.columns.label]))}
        text = record[self.columns.text]
        if isinstance(text, list) and text:
            text = text[0]  # several captions of one image
        if not isinstance(text, str):
            raise self._wrong(index, self.columns.text, "text", text)
        if self.columns.image:
            return {**pixels, **causal_row(encode(text), self.spec.sequence_length)}
        return text_row(encode(text), self.spec, rng)

    def _label(self, index: int, label: Any) -> int:
        if not isinstance(label, int) or label < 0:
            raise self._wrong(index, self.columns.label, "class number", label)
        if label >= self.spec.classes:
            raise _too_many(self.name, label + 1, self.spec)
        return label

    def _wrong(self, index: int, column: str, expected: str, value: Any) -> GradscopeError:
        return GradscopeError(
            f"{self.name}, row {index}: column '{column}' holds {type(value).__name__}, no {expected}",
            "name another column in data.options",
        )


def _offline() -> bool:
    from huggingface_hub import constants

    return constants.HF_HUB_OFFLINE


def _too_many(name: str, classes: int, spec: DataSpec) -> GradscopeError:
    return GradscopeError(
        f"{name} has at least {classes} classes, and the model has {spec.classes}",
        f"set model.options.num_labels = {classes}",
    )
