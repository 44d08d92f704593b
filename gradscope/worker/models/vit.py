"""ViT for image classification (Dosovitskiy et al. 2021, arXiv 2010.11929): B/16 at 224, or a small one at 64."""

from transformers import ViTConfig, ViTForImageClassification

from gradscope.config.schema import DataSettings, ModelSettings
from gradscope.worker.contract import DataSpec, TrainingModel
from gradscope.worker.models.losses import classification_loss, count_labels
from gradscope.worker.models.overrides import check_classes, check_images, checked, make_config

SCALES = {
    "full": {"image_size": 224, "num_labels": 1000},
    "tiny": {
        "image_size": 64,
        "patch_size": 8,
        "hidden_size": 96,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "intermediate_size": 384,
        "num_labels": 9,
    },
}
"""`full` is the config's own default, which is ViT-B/16: 86,567,656 parameters with 1000 classes."""


def build(settings: ModelSettings, data: DataSettings) -> TrainingModel:
    """Build a ViT; rows are `pixel_values` `[3, size, size]` and `labels` `[]`."""
    fields = dict(SCALES[settings.scale])
    if data.image_size is not None:
        fields["image_size"] = data.image_size
    config = make_config(ViTConfig, fields, settings)
    check_images(config)
    check_classes(config)
    module = checked(lambda: ViTForImageClassification(config), "model.options")
    return TrainingModel(
        name=settings.name,
        module=module,
        loss=classification_loss,
        count=count_labels,
        counts_tokens=False,
        spec=DataSpec(task="image-class", image_size=config.image_size, classes=config.num_labels),
    )
