"""The data sets a preset can name, and the loader that makes micro-batches of their rows."""

from torch.utils.data import Dataset

from gradscope.config.catalogue import DATASET_SCHEMES, DATASETS
from gradscope.config.schema import DataSettings
from gradscope.worker.contract import Batch, BuildDataset, DataSpec
from gradscope.worker.targets import load_target


def build_dataset(settings: DataSettings, spec: DataSpec, seed: int) -> Dataset[Batch]:
    """Build the data set of a preset, with the rows a model asks for.

    Args:
        settings: The preset's `[data]`.
        spec: What the model needs, `TrainingModel.spec`.
        seed: The preset's `run.seed`.

    Raises:
        GradscopeError: There is no such data set, it has no rows for this task, or its files cannot be read.
    """
    build: BuildDataset = load_target("data set", settings.name, DATASETS, DATASET_SCHEMES)
    return build(settings, spec, seed)
