"""The models a preset can name. Each is one module with a `build`; the catalogue says which."""

from gradscope.config.catalogue import MODEL_SCHEMES, MODELS
from gradscope.config.schema import DataSettings, ModelSettings
from gradscope.worker.contract import BuildModel, TrainingModel
from gradscope.worker.targets import load_target


def build_model(settings: ModelSettings, data: DataSettings) -> TrainingModel:
    """Build the model of a preset on the current default device, with weights from torch's current RNG state.

    Args:
        settings: The preset's `[model]`.
        data: The preset's `[data]`: sequence length, image size and batch rows shape some models.

    Raises:
        GradscopeError: The name, an option or a size does not fit, or the user's own factory failed.
    """
    build: BuildModel = load_target("model", settings.name, MODELS, MODEL_SCHEMES)
    return build(settings, data)
